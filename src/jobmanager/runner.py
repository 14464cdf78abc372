"""Runs jobs, one after another, for the job manager at the other end of file descriptor 0.

Needs CPython 3.8 and its standard library. To the manager: frames of a big-endian 32-bit length, a letter and a body;
from it: the same with a byte of flags in place of the letter. The first frame from the manager holds settings, as JSON.
"""

import importlib
import json
import os
import struct
import sys
import traceback

WANTS_RESULT = 1
HEAD = struct.Struct(">IB")


class Refused(Exception):
    """A job that is not begun; `kind` is the type of its error."""

    def __init__(self, kind, message):
        Exception.__init__(self, message)
        self.kind = kind


class Unserializable(Exception):
    """A job that ended well but whose value cannot be passed on."""


class Channel:
    """The manager's end, out of the way of what jobs do with descriptors 0, 1 and 2."""

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.pid = os.getpid()

    def read(self, size):
        parts = []
        while size:
            part = os.read(self.descriptor, min(size, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def receive(self):
        size, flags = HEAD.unpack(self.read(HEAD.size))
        return flags, self.read(size)

    def send(self, letter, body=b""):
        if os.getpid() != self.pid:
            # A job forked, and its child came back here: it has no business with the manager.
            os._exit(0)
        rest = memoryview(HEAD.pack(len(body), ord(letter)) + body)
        while rest:
            rest = rest[os.write(self.descriptor, rest):]


def text_of(error):
    try:
        return str(error)
    except Exception:
        return "(an exception of type {} without a readable text)".format(type(error).__name__)


def clean(text):
    """Without lone surrogates: they have no place in UTF-8, and other readers of JSON refuse them."""
    return text.encode("utf-8", "backslashreplace").decode()


def failure(kind, value, message, trace=""):
    """The result of a job that failed; `value` is what Python EventMQ puts there."""
    error = {"type": kind, "message": clean(message), "traceback": clean(trace)}
    return json.dumps({"value": clean(value), "error": error}).encode()


def trace_of(error):
    """The traceback from the job's own code on."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    try:
        return "".join(traceback.format_exception(type(error), error, frames))
    except Exception:
        return ""


def function_named(name):
    """The function or method that a setting names: package.module.function, package.module:Class.method."""
    path, dot, last = name.strip().rpartition(".")
    if not dot or not path:
        raise ValueError("{!r} is not of the form package.module.function".format(name))
    return resolve(path, last, (), {})


def resolve(path, name, class_args, class_kwargs):
    module, colon, rest = path.partition(":")
    owner = importlib.import_module(module)
    if colon:
        owner = getattr(owner, rest.split(":")[0])(*class_args, **class_kwargs)
    return getattr(owner, name)


def matches(pattern, name):
    """Whether a name is of a pattern, in which * stands for anything."""
    first, *others = pattern.split("*")
    if not others:
        return name == first
    if not name.startswith(first) or len(name) < len(first):
        return False
    rest = name[len(first):]
    for part in others[:-1]:
        before, found, after = rest.partition(part) if part else ("", True, rest)
        if not found:
            return False
        rest = after
    return rest.endswith(others[-1])


class Runner:
    def __init__(self, channel, settings):
        self.channel = channel
        self.settings = settings
        self.entry = self.exit = None

    def prepare(self):
        """Runs the setup function, finds the others."""
        settings = self.settings
        setup = settings["setup_func"]
        if not setup and settings["setup_path"] and settings["setup_callable"]:
            log("setup_path and setup_callable are deprecated: use subprocess_setup_func")
            setup = settings["setup_path"].partition(":")[0] + "." + settings["setup_callable"]
        if setup:
            try:
                function_named(setup)()
            except Exception as error:
                # As in Python EventMQ the jobs run all the same.
                log("cannot run the setup function {}: {}\n{}".format(setup, text_of(error), trace_of(error)))
        for key in ("entry", "exit"):
            name = settings["job_{}_func".format(key)]
            if name:
                try:
                    setattr(self, key, function_named(name))
                except Exception as error:
                    raise SystemExit("job_{}_func = {}: {}".format(key, name, text_of(error)))

    def read_job(self, body):
        try:
            message = json.loads(body.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError) as error:
            raise Refused("Malformed", "the message is not JSON: {}".format(error))
        if not isinstance(message, list) or len(message) < 2 or not isinstance(message[1], dict):
            raise Refused("Malformed", 'the message is not of the form ["run", {...}]')
        what = message[1]
        if message[0] != "run":
            raise Refused("Malformed", "there is no such subcommand, only run")
        path, name = what.get("path"), what.get("callable")
        if not isinstance(path, str) or not isinstance(name, str) or not path or not name:
            raise Refused("Malformed", "the message does not say which path and callable to run")
        allowed = self.settings["allowed_callables"]
        full = "{}.{}".format(path, name)
        if allowed and not any(matches(pattern, full) for pattern in allowed):
            raise Refused("NotAllowed", "{} is not among the allowed_callables".format(full))
        return what

    def call(self, body, wanted):
        """Runs a job; its result, if that is wanted."""
        what = self.read_job(body)
        if self.entry:
            self.entry()
        try:
            function = resolve(
                what["path"], what["callable"], what.get("class_args", ()), what.get("class_kwargs", {})
            )
            value = function(*what.get("args", ()), **what.get("kwargs", {}))
        finally:
            if self.exit:
                try:
                    self.exit()
                except Exception as error:
                    log("job_exit_func failed: {}\n{}".format(text_of(error), trace_of(error)))
        if not wanted:
            return b""
        try:
            result = json.dumps({"value": value}).encode("utf-8")
        except Exception as error:
            raise Unserializable(text_of(error)) from error
        if len(result) > self.settings["max_result_size"]:
            size, most = len(result), self.settings["max_result_size"]
            raise Refused("ResultTooLarge", "the result has {} bytes, more than max_result_size = {}".format(size, most))
        return result

    def run(self, body, wanted):
        """The letter and the body to send for a job."""
        try:
            return "V", self.call(body, wanted)
        except Refused as error:
            return "E", failure(error.kind, text_of(error), text_of(error))
        except Unserializable as error:
            cause = error.__cause__
            message = "the job's value cannot be passed on as JSON: {}".format(error)
            return "E", failure(type(cause).__name__, text_of(error), message)
        except Exception as error:
            trace = trace_of(error)
            return "E", failure(type(error).__name__, text_of(error), text_of(error), trace)
        except BaseException as error:
            # sys.exit() and the like: the job wants its process to end, and so it does.
            return "X", failure(type(error).__name__, text_of(error), text_of(error), trace_of(error))

    def serve(self):
        while True:
            flags, body = self.channel.receive()
            letter, result = self.run(body, flags & WANTS_RESULT)
            del body
            flush()
            self.channel.send(letter, result)
            if letter == "X":
                return


def log(text):
    print(text, file=sys.stderr)


def flush():
    """What a job printed is out before its result is."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


def main():
    channel = Channel(os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    try:
        if sys.version_info < (3, 8):
            raise SystemExit("Python {}.{} is too old: 3.8 or newer is needed".format(*sys.version_info))
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
        sys.argv[:] = ["emq-jobmanager"]
        # What is imported does not change with a job's chdir().
        sys.path[:] = [os.getcwd() if entry == "" else entry for entry in sys.path]
        _, settings = channel.receive()
        runner = Runner(channel, json.loads(settings))
        runner.prepare()
    except EOFError:
        return
    except BaseException as error:
        flush()
        channel.send("F", clean(text_of(error) or type(error).__name__).encode())
        return
    channel.send("R")
    try:
        runner.serve()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    except KeyboardInterrupt:
        pass


main()
