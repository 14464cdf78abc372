# -*- coding: utf-8 -*-


def echo(text):
    return [text, len(text), "h\u00e9\u4e16\U0001f600"]


def keys():
    return {"\u00e9": {"\u4e16": 1}, "\n": "\t\x00"}
