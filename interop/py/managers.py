"""Our job manager and our worker for programs, as processes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import psutil

from programs import HERE, Marks, Program, Router, emq_binary, write_conf

#: The interpreter the suite's environment was made from: CPython without any package.
BARE_PYTHON = str(getattr(sys, "_base_executable", sys.executable))

#: Settings that keep waiting short; whole numbers, so that the original can read them too.
FAST = {"heartbeat_interval": 1, "heartbeat_timeout": 2, "heartbeat_liveness": 3, "reconnect_timeout": 1}


class OurJobManager(Program):
    """`emq jobmanager` with a conf file of its own."""

    def __init__(
        self,
        directory: Path,
        marks: Marks,
        where: Router | str,
        jobs: int = 2,
        options: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
        python: str = BARE_PYTHON,
        **settings: object,
    ) -> None:
        backend = where if isinstance(where, str) else where.backend
        number = len(list(directory.glob("our-jobmanager*.conf"))) + 1
        name = f"our-jobmanager-{number}"
        self.conf = directory / f"{name}.conf"
        self.settings: dict[str, object] = {
            **FAST, "worker_addr": backend, "concurrent_jobs": jobs, "python": python, **settings,
        }
        self.write_conf()
        argv = [emq_binary(), "jobmanager", "-C", str(self.conf), *options]
        env = {"PYTHONPATH": str(HERE), "EMQ_MARKS": str(marks.path), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
        super().__init__(name, argv, directory / f"{name}.log", env)
        self.start()

    def write_conf(self) -> None:
        write_conf(self.conf, **{"global": self.settings, "jobmanager": {}})

    def processes(self) -> list[psutil.Process]:
        """Everything it has started, and what that has."""
        return psutil.Process(self.pid).children(recursive=True)

    def workers(self) -> list[psutil.Process]:
        """The processes that run jobs."""
        return [child for child in psutil.Process(self.pid).children() if "emq-worker" in cmdline(child)]

    def finish(self) -> None:
        """Ends it and all it has started, and fails if it panicked."""
        if self.process is None:
            return
        self.kill_group()
        output = self.output()
        assert "panicked at" not in output, f"{self.name} panicked:\n{output[-6000:]}"


class ExecWorker(Program):
    """`emq worker --exec`."""

    def __init__(self, directory: Path, where: Router | str, *options: str) -> None:
        backend = where if isinstance(where, str) else where.backend
        argv = [emq_binary(), "worker", "-B", backend, *options]
        super().__init__("emq-worker", argv, directory / "emq-worker.log")
        self.start()

    def finish(self) -> None:
        if self.process is not None:
            self.kill_group()
            assert "panicked at" not in self.output(), self.output()[-6000:]


def cmdline(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def gone(processes: list[psutil.Process]) -> bool:
    """Whether none of them runs any more; a zombie that nobody has collected does not."""
    def runs(process: psutil.Process) -> bool:
        try:
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    return not any(runs(process) for process in processes)
