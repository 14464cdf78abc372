"""Writes expected.json: what Python's ConfigParser makes of ini/*.conf. Run with Python 3.11 in this folder."""

import configparser
import json
import pathlib

expected = {}
for path in sorted(pathlib.Path("ini").glob("*.conf")):
    parser = configparser.ConfigParser()
    try:
        parser.read(path, encoding="utf-8")
    except configparser.Error:
        expected[path.name] = None
        continue
    sections = {}
    for name in parser.sections():
        values = sections[name] = {}
        for key in parser.options(name):
            try:
                values[key] = parser.get(name, key)
            except configparser.InterpolationError:
                values[key] = None
    expected[path.name] = sections
pathlib.Path("expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
