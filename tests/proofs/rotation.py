"""Keys are rotated under load, and no honest retry is refused.

Server processes over HTTP share one file of keys, each with a clock of its own and a pace of its own at which it looks
at the file. Clients ask one process and answer at another, at once or late in the state's life, while ``mcpinput keys
rotate`` takes one step after the other: as its manual says, when all fingerprints are equal. Time runs faster than on
the wall, in servers and commands alike; in full, one more rotation follows in real time.

A retry is honest as long as the state cannot have expired by any clock. One that is refused fails the proof; so does
anything but a complete result.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from mcpinput import (
    ANONYMOUS,
    Accepted,
    InputRequest,
    InputRequestDeclaration,
    InputRequiredResult,
    KeyFile,
    ProtectionConfig,
    RequestContext,
    RequestStateMode,
    Requirement,
    Server,
    input_required,
    protocol,
)

WAIT: Final = 120.0
"""Seconds of the wall after which something that should have happened will not happen any more."""

CONNECTIONS: Final = 4
"""Connections to each process, kept open."""

HASTY, SLOW = 6, 300
"""So many clients answer at once, so many take up to nearly the lifetime of the state."""


@dataclass(frozen=True, slots=True)
class Instance:
    """How one server process differs from the others.

    Attributes:
        skew: Seconds that its clock is ahead.
        poll: Seconds of the wall from one look at the file to the next.
    """

    skew: float
    poll: float


@dataclass(frozen=True, slots=True)
class Plan:
    """How one run goes.

    Attributes:
        speed: Seconds of its clocks in one second of the wall.
        lifetime: Seconds of the state's life.
        delay: Seconds until every process must have seen a new file.
        rotations: As many must be complete.
        flows: As many flows must be complete.
        instances: The processes.
    """

    speed: float
    lifetime: int
    delay: int
    rotations: int
    flows: int
    instances: tuple[Instance, ...]


PLAN: Final = Plan(
    speed=40,
    lifetime=120,
    delay=20,
    rotations=3,
    flows=20_000,
    instances=(Instance(0, 0.02), Instance(-10, 0.1), Instance(10, 0.3)),
)
FULL: Final = (
    Plan(PLAN.speed, PLAN.lifetime, PLAN.delay, 20, 100_000, (*PLAN.instances, Instance(5, 0.25))),
    Plan(1, 5, 1, 1, 5_000, (Instance(0, 0.1), Instance(-0.5, 0.2), Instance(0.5, 0.5))),
)


class Clock:
    """Seconds since 1970 that pass faster from a moment on, and are ahead by some. Equal in all processes."""

    def __init__(self, start: float, speed: float, skew: float = 0) -> None:
        self.start = start
        self.speed = speed
        self.skew = skew
        self._wall = time.time  # the command's process puts this clock in its place

    def __call__(self) -> float:
        return self.start + (self._wall() - self.start) * self.speed + self.skew


# ---- a server process ----


def server_of(file: str, clock: Clock, poll: float, lifetime: int, delay: int) -> Server:
    """One tool, which asks for a price once."""
    keys = KeyFile(file, activation_delay=timedelta(seconds=delay), poll_interval=timedelta(seconds=poll))
    protection = ProtectionConfig(
        key_file=keys, clock=clock, maximum_request_state_lifetime=timedelta(seconds=lifetime)
    )
    server = Server("shop", version="1", protection=protection, admission=ANONYMOUS)
    form = InputRequestDeclaration.from_elicitation_form(Requirement.REQUIRED)
    question = InputRequest.from_declaration(
        form, {"mode": "form", "message": "Which price?", "requestedSchema": {"type": "object", "properties": {}}}
    )

    @server.tool("price", input_requests=[form], request_state=RequestStateMode.FRAMEWORK_PROTECTED)
    async def price(ctx: RequestContext) -> str | InputRequiredResult:
        if isinstance(ctx.input_responses.elicitation("price", question), Accepted):
            return f"step {ctx.framework_request_state!r}"
        return input_required({"price": question}, framework_request_state=ctx.round)

    return server


def application_of(server: Server) -> Any:
    """The server, and what it exports of its keys, as somebody would who compares instances."""
    served = server.asgi()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == "/keys":
            snapshot = server.protection_keyring_manager.snapshot()
            told = {
                "active": snapshot.active_key_id,
                "verification": list(snapshot.verification_key_ids),
                "fingerprint": snapshot.fingerprint.value,
            }
            body = json.dumps(told).encode()
            length = (b"content-length", str(len(body)).encode())
            await send({"type": "http.response.start", "status": 200, "headers": [length]})
            await send({"type": "http.response.body", "body": body})
        else:
            await served(scope, receive, send)

    return application


def serve(file: str, start: str, speed: str, skew: str, poll: str, lifetime: str, delay: str) -> None:
    """Serves on a free port, which it prints, until it is terminated."""
    import uvicorn

    clock = Clock(float(start), float(speed), float(skew))
    application = application_of(server_of(file, clock, float(poll), int(lifetime), int(delay)))
    listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(application, ws="none", log_level="warning", access_log=False, timeout_keep_alive=600)
    uvicorn.Server(config).run(sockets=[listener])


def command(start: str, speed: str, *arguments: str) -> int:
    """``mcpinput`` with these arguments, by the faster clock."""
    from mcpinput import cli

    time.time = Clock(float(start), float(speed))
    return cli.main(arguments)


# ---- clients ----


class Connection:
    """One connection that is kept; a request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, port: int) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def exchange(self, message: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        self._writer.write(message)
        head = await self._reader.readuntil(b"\r\n\r\n")
        at = head.lower().index(b"content-length:") + len(b"content-length:")
        length = int(head[at : head.index(b"\r\n", at)])
        return int(head[9:12]), await self._reader.readexactly(length)

    def close(self) -> None:
        self._writer.close()


META: Final = json.dumps(
    {
        protocol.META_PROTOCOL_VERSION: protocol.PROTOCOL_VERSION,
        protocol.META_CLIENT_CAPABILITIES: {"elicitation": {"form": {}}},
    }
)
HEAD: Final = (
    "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    "accept: application/json, text/event-stream\r\n"
    f"mcp-protocol-version: {protocol.PROTOCOL_VERSION}\r\nmcp-method: tools/call\r\nmcp-name: price\r\n"
)
ANSWERS: Final = '"inputResponses":{"price":{"action":"accept","content":{"price":3.50}}}'


def message(request_id: int, more: str = "") -> bytes:
    params = f'{{"name":"price","arguments":{{"sku":7}},"_meta":{META}{more}}}'
    body = f'{{"jsonrpc":"2.0","id":{request_id},"method":"tools/call","params":{params}}}'
    return f"{HEAD}content-length: {len(body)}\r\n\r\n{body}".encode()


ASK: Final = message(1)
EXPORT: Final = b"GET /keys HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Process:
    """One server process, and connections to it."""

    def __init__(self, instance: Instance, popen: subprocess.Popen[bytes]) -> None:
        self.instance = instance
        self.popen = popen
        self._idle: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()

    async def connect(self) -> None:
        assert self.popen.stdout is not None
        port = int(await asyncio.to_thread(self.popen.stdout.readline))
        for _ in range(CONNECTIONS):
            self._idle.put_nowait(await Connection.to(port))

    async def exchange(self, sent: bytes) -> tuple[int, bytes]:
        connection = await self._idle.get()
        async with asyncio.timeout(WAIT):
            answer = await connection.exchange(sent)
        self._idle.put_nowait(connection)
        return answer

    async def keys(self) -> dict[str, Any]:
        _, body = await self.exchange(EXPORT)
        keys: dict[str, Any] = json.loads(body)
        return keys

    def end(self) -> None:
        while not self._idle.empty():
            self._idle.get_nowait().close()
        self.popen.terminate()


@contextlib.asynccontextmanager
async def processes(plan: Plan, file: str, start: float) -> AsyncIterator[list[Process]]:
    """The server processes of a plan, ready."""
    made: list[Process] = []
    try:
        for instance in plan.instances:
            made.append(Process(instance, started(plan, instance, file, start)))
        for process in made:
            await process.connect()
        yield made
    finally:
        for process in made:
            process.end()
        for process in made:
            await asyncio.to_thread(ended, process.popen)


def started(plan: Plan, instance: Instance, file: str, start: float) -> subprocess.Popen[bytes]:
    values = [start, plan.speed, instance.skew, instance.poll, plan.lifetime, plan.delay]
    arguments = [sys.executable, "-m", __spec__.name, "serve", file, *map(str, values)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE)


def ended(popen: subprocess.Popen[bytes]) -> None:
    """Waits for the end of a process that was told to end."""
    with popen:
        try:
            popen.wait(10)
        except subprocess.TimeoutExpired:
            popen.kill()


class Refused(Exception):
    """An honest client did not get what it should have."""


@dataclass(slots=True)
class Counts:
    """What the clients have seen.

    Attributes:
        complete: Flows that went to their end.
        elsewhere: Those whose retry went to another process than their ask.
        slow: Those that were answered in the second half of their lifetime.
        late: Flows whose state may have expired before its retry came: whatever comes of them proves nothing.
    """

    complete: int = 0
    elsewhere: int = 0
    slow: int = 0
    late: int = 0


class Load:
    """Clients that ask and answer, until they are told to stop."""

    def __init__(self, plan: Plan, clock: Clock, among: list[Process]) -> None:
        self.counts = Counts()
        self._plan = plan
        self._clock = clock
        self._among = among
        self._draw = random.Random(20260728)

    async def client(self, slow: bool) -> None:
        longest = self._plan.lifetime / self._plan.speed * 0.8 if slow else 0
        while True:
            await self._flow(longest)

    async def _flow(self, longest: float) -> None:
        here, there = self._draw.choice(self._among), self._draw.choice(self._among)
        asked = self._clock()
        status, body = await here.exchange(ASK)
        result = json.loads(body).get("result", {})
        if status != 200 or result.get("resultType") != protocol.INPUT_REQUIRED:
            raise Refused(f"an ask was answered with {status} {body.decode()}")
        if longest:
            await asyncio.sleep(self._draw.uniform(0, longest))
        status, body = await there.exchange(message(2, f',"requestState":"{result["requestState"]}",{ANSWERS}'))
        age = self._clock() - asked + there.instance.skew - here.instance.skew  # at most, by both their clocks
        counts = self.counts
        if age >= self._plan.lifetime:
            counts.late += 1
            return
        if status != 200 or b'"resultType":"complete"' not in body:
            raise Refused(f"a retry of {age:.1f} of {self._plan.lifetime} s was answered with {status} {body.decode()}")
        counts.complete += 1
        counts.elsewhere += here is not there
        counts.slow += age * 2 > self._plan.lifetime


# ---- whoever rotates ----


class Operator:
    """Rotates by the command line, and looks at every process before each step."""

    def __init__(self, plan: Plan, clock: Clock, file: str, among: list[Process]) -> None:
        self.rotations = 0
        self._plan = plan
        self._clock = clock
        self._file = file
        self._among = among

    async def rotate(self) -> None:
        """Takes all steps of one rotation."""
        former = (await self._among[0].keys())["active"]
        await self._step("step 1 of 3")
        await self._all(lambda keys: keys["active"] == former and len(keys["verification"]) == 1)
        await self._step("step 2 of 3")
        await self._all(lambda keys: keys["active"] != former and keys["verification"] == [former])
        await self._step("step 3 of 3")
        await self._all(lambda keys: keys["active"] != former and keys["verification"] == [])
        self.rotations += 1

    async def _step(self, wanted: str) -> None:
        """The next step, as soon as it is not too early any more."""
        plan = self._plan
        times = ["--lifetime", str(plan.lifetime), "--activation-delay", str(plan.delay)]
        end = time.monotonic() + WAIT + plan.lifetime / plan.speed
        while True:
            code, out, err = await mcpinput(self._clock, "keys", "rotate", self._file, *times)
            if code == 0 and wanted in out:
                return
            if "the next step is right from" not in err or time.monotonic() > end:
                raise AssertionError(f"{wanted} did not come: {code} {out} {err}")
            await asyncio.sleep(min(5.0, plan.delay / plan.speed / 2))

    async def _all(self, are_right: Callable[[dict[str, Any]], bool]) -> None:
        """Waits until every process has the right keys, and all have the same fingerprint."""
        end = time.monotonic() + WAIT + (self._plan.lifetime + 60) / self._plan.speed
        while True:
            keys = [await process.keys() for process in self._among]
            if all(map(are_right, keys)) and len({one["fingerprint"] for one in keys}) == 1:
                return
            if time.monotonic() > end:
                raise AssertionError(f"the processes do not come to the same keys: {keys}")
            await asyncio.sleep(0.05)


async def mcpinput(clock: Clock, *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of one run of the command line."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        __spec__.name,
        "command",
        str(clock.start),
        str(clock.speed),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


# ---- a run ----


async def run(plan: Plan, report: Callable[[str], None]) -> None:
    """Rotates under load as a plan says.

    Raises:
        Refused: An honest client was refused.
        AssertionError: Something else is not as it should be.
    """
    start, begin = time.time(), time.monotonic()
    clock = Clock(start, plan.speed)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "keys.json")
        code, _, err = await mcpinput(clock, "keys", "new", file)
        assert code == 0, err
        async with processes(plan, file, start) as among:
            load, operator = Load(plan, clock, among), Operator(plan, clock, file, among)

            async def rotate() -> None:
                while operator.rotations < plan.rotations or load.counts.complete < plan.flows:
                    await operator.rotate()

            await until_done(rotate(), [load.client(slow) for slow in [False] * HASTY + [True] * SLOW])
            assert all(process.popen.poll() is None for process in among), "a server process ended by itself"
    counts = load.counts
    report(
        f"{counts.complete:,} flows without a refusal, {counts.elsewhere:,} of them answered at another process and "
        f"{counts.slow:,} in the second half of their {plan.lifetime} s ({counts.late:,} more came too late to tell), "
        f"{operator.rotations} rotations of the keys of {len(among)} processes, time {plan.speed:g} times as fast, "
        f"{time.monotonic() - begin:.0f} s"
    )


async def until_done(work: Coroutine[Any, Any, None], beside: list[Coroutine[Any, Any, None]]) -> None:
    """Does some work beside others that have no end; whatever fails first is raised."""
    main = asyncio.create_task(work)
    tasks = [main, *map(asyncio.create_task, beside)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    failed = [task for task in tasks if task.done() and task.exception() is not None]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in failed:
        await task


def main(plans: tuple[Plan, ...]) -> int:
    """Prints what was done; answers 1 where something went wrong."""
    try:
        for plan in plans:
            asyncio.run(run(plan, lambda text: print(f"rotation: {text}")))
    except (Refused, AssertionError) as error:
        print(f"rotation: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", *arguments]:
            serve(*arguments)
        case ["command", *arguments]:
            sys.exit(command(*arguments))
        case options:
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the server processes end as well
            sys.exit(main(FULL if options == ["--full"] else (PLAN,)))
