"""Checks of passwords, which nobody can use to stop the pages, to find out logins, or to lock an account.

- Hashes are computed in threads of their own, at a low priority. The queue before them is bounded, in all and for each
  address; an attempt beyond that is told to come again.
- Wrong passwords are counted in the ledger, by address, by login, and by login from an address. Whoever guesses waits
  longer and longer between two attempts. The wait belongs to the address of the guesser: the right password from
  another address is accepted, at most `LONGEST_PAUSE` seconds later than usual. So no account is ever locked.
- An unknown login is counted, hashed, answered and noted in the audit trail like a known one.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from math import ceil
from typing import TypeVar

from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger
from sciagent.store.people import audit, persons, wrong_passwords
from sciagent.store.people.persons import Person
from sciagent.store.people.wrong_passwords import WrongPasswords, subject
from sciagent.web import visitors_and_passwords
from sciagent.web.visitors_and_passwords import PasswordFit

Result = TypeVar("Result")
HASH_THREADS = max(1, (os.cpu_count() or 1) // 4)  # each takes 64 MiB, and four lanes of the processor
LEDGER_THREADS = 2
LOW_PRIORITY = 5  # nice value of the threads that hash
MOST_AT_ONCE = 48  # attempts that are in work or in the queue
MOST_OF_ADDRESS = 12  # attempts of one address among them
BUSY_SECONDS = 3  # after which an attempt that found the queue full may come again
REFUSAL_SECONDS = 1.0  # pause before a refusal, so that a guesser who does not wait sends few requests
MOST_PAUSED = 200  # refusals that pause at once; others are sent at once


class TryLaterError(UsageError):
    """The password was not read. The same request may be sent again later."""

    def __init__(self, text: str, status: int, seconds: float) -> None:
        """status: of HTTP. seconds: until the request may be sent again."""
        super().__init__(text)
        self.status = status
        self.seconds = ceil(seconds)


@dataclass(frozen=True)
class Limit:
    """The time that has to pass after a wrong password, before the next one is read. It doubles with each."""

    free: int
    """Wrong passwords without a wait."""
    first_seconds: float
    longest_seconds: float

    def wait(self, wrong: WrongPasswords | None) -> float:
        """Returns the seconds after the last wrong password; 0 for none."""
        if wrong is None or wrong.number < self.free:
            return 0.0
        n_doublings = min(wrong.number - self.free, 20)  # keeps 2**n small; the longest wait is reached before
        return float(min(self.longest_seconds, self.first_seconds * 2**n_doublings))


OF_LOGIN_FROM_ADDRESS = Limit(free=5, first_seconds=30, longest_seconds=900)
OF_ADDRESS = Limit(free=30, first_seconds=1, longest_seconds=60)  # people may share an address
OF_LOGIN = Limit(free=10, first_seconds=0.5, longest_seconds=4)  # a pause before the answer, from any address
LONGEST_PAUSE = OF_LOGIN.longest_seconds


@dataclass(frozen=True)
class Attempt:
    """A login and an address, from which somebody sent a password."""

    login: str
    address: str

    @property
    def pair(self) -> str:
        return subject("login from address", self.login, self.address)

    @property
    def of_address(self) -> str:
        return subject("address", self.address)

    @property
    def of_login(self) -> str:
        return subject("login", self.login)

    @property
    def subjects(self) -> Collection[str]:
        return (self.pair, self.of_address, self.of_login)


@dataclass(frozen=True)
class Admission:
    """Whether the password of an attempt is read."""

    wait_seconds: float
    """Time until the next password is read; 0: this one is."""
    pause_seconds: float = 0.0
    """Time by which the answer is delayed."""
    person: Person | None = None
    """The account of the login, if it can log in."""


class PasswordChecks:
    """The checks of the passwords of a ledger, by one server."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._hash_threads = ThreadPoolExecutor(HASH_THREADS, "password", initializer=_lower_priority)
        self._ledger_threads = ThreadPoolExecutor(LEDGER_THREADS, "password-ledger")
        self._lock = threading.Lock()
        self._at_once = Counter[str]()
        """{address: attempts in work or in the queue}."""
        self._n_paused = 0

    async def checked(self, login: str, password: str, address: str | None) -> Person | None:
        """Returns the account if login and password fit, else None; wrong ones are counted.

        address: from which the request came. Raises TryLaterError if too many passwords wait, or if there were too
        many wrong ones of this login from this address, or of this address.
        """
        attempt = Attempt(login, network_of(address))
        try:
            async with self._turn(attempt.address):
                admission = await _in(self._ledger_threads, lambda: self._admitted(attempt))
                if admission.wait_seconds > 0:
                    raise _too_many(admission.wait_seconds)
                person = admission.person
                password_hash = None if person is None else person.password_hash
                fit = await _in(self._hash_threads, lambda: visitors_and_passwords.fit(password_hash, password))
                await _in(self._ledger_threads, lambda: self._note(attempt, person, fit))
        except TryLaterError:
            await self._pause_before_refusal()
            raise
        await asyncio.sleep(admission.pause_seconds)
        return person if fit.is_right else None

    async def hashed(self, password: str, login: str, address: str | None) -> str:
        """Returns the hash of a new password. Raises UsageError as `visitors_and_passwords.hashed` does, and
        TryLaterError if too many passwords wait."""
        async with self._turn(network_of(address)):
            return await _in(self._hash_threads, lambda: visitors_and_passwords.hashed(password, login))

    async def hashed_pin(self, pin: str, address: str | None) -> str:
        """Returns the hash of a new PIN. Raises UsageError as `visitors_and_passwords.hashed_pin` does, and
        TryLaterError if too many passwords wait."""
        async with self._turn(network_of(address)):
            return await _in(self._hash_threads, lambda: visitors_and_passwords.hashed_pin(pin))

    async def pin_fits(self, pin_hash: str | None, pin: str, address: str | None, may_read: Callable[[], bool]) -> bool:
        """Returns whether a PIN has this hash. Who calls it counts the PINs.

        may_read: counts the PIN, and says whether it is read. It is called in a thread, when the PIN has a place in the
        queue. Raises TryLaterError if too many passwords wait; the PIN is not counted then."""
        async with self._turn(network_of(address)):
            if not await _in(self._ledger_threads, may_read):
                return False
            fit = await _in(self._hash_threads, lambda: visitors_and_passwords.fit(pin_hash, pin))
            return fit.is_right

    @asynccontextmanager
    async def _turn(self, address: str) -> AsyncIterator[None]:
        """Holds one of the places in the queue. Raises TryLaterError if none is free."""
        with self._lock:
            if self._at_once.total() >= MOST_AT_ONCE or self._at_once[address] >= MOST_OF_ADDRESS:
                text = "one moment: many passwords are being checked, and yours was not read; send it again"
                raise TryLaterError(text, 503, BUSY_SECONDS)
            self._at_once[address] += 1
        try:
            yield
        finally:
            with self._lock:
                self._at_once[address] -= 1
                if not self._at_once[address]:
                    del self._at_once[address]

    async def _pause_before_refusal(self) -> None:
        with self._lock:
            if self._n_paused >= MOST_PAUSED:
                return
            self._n_paused += 1
        try:
            await asyncio.sleep(REFUSAL_SECONDS)
        finally:
            with self._lock:
                self._n_paused -= 1

    def _admitted(self, attempt: Attempt) -> Admission:
        """Returns whether the password is read. It is counted as wrong first, so that attempts at the same time do not
        get more guesses; a right one is taken back."""
        with self._ledger.read() as connection:
            wait_seconds = _wait(attempt, wrong_passwords.of_subjects(connection, attempt.subjects))
        if wait_seconds > 0:  # the usual answer to a guesser, without a write
            return Admission(wait_seconds)
        with self._ledger.begin() as connection:
            wrong = wrong_passwords.of_subjects(connection, attempt.subjects, for_update=True)
            wait_seconds = _wait(attempt, wrong)
            if wait_seconds > 0:
                return Admission(wait_seconds)
            numbers = {name: wrong[name].number + 1 if name in wrong else 1 for name in attempt.subjects}
            wrong_passwords.count(connection, numbers)
            person = persons.by_login(connection, attempt.login)
        if person is not None and (person.disabled_at is not None or person.password_hash is None):
            person = None
        return Admission(0.0, OF_LOGIN.wait(wrong.get(attempt.of_login)), person)

    def _note(self, attempt: Attempt, person: Person | None, fit: PasswordFit) -> None:
        """Writes what came of an attempt."""
        with self._ledger.begin() as connection:
            if fit.is_right and person is not None:
                wrong_passwords.take_back(connection, (attempt.of_address, attempt.of_login))
                wrong_passwords.forget(connection, attempt.pair)
                if fit.newer_hash is not None:
                    persons.rehash(connection, person.id, fit.newer_hash)
                return
            # what was typed as an unknown login may be a password, so it is not written
            who = "somebody" if person is None else person.login
            person_id = None if person is None else person.id
            audit.append(
                connection, who, "failed to log in", "person", person_id, by="browser", address=attempt.address
            )


def _wait(attempt: Attempt, wrong: Mapping[str, WrongPasswords]) -> float:
    """Returns the seconds until a password of the attempt is read; 0 for now."""
    left = [0.0]
    for name, limit in ((attempt.pair, OF_LOGIN_FROM_ADDRESS), (attempt.of_address, OF_ADDRESS)):
        if name in wrong:
            left.append(limit.wait(wrong[name]) - wrong[name].seconds_since_last)
    return max(left)


def _too_many(seconds: float) -> TryLaterError:
    if seconds > 90:
        span = f"{ceil(seconds / 60)} minutes"
    else:
        span = f"{ceil(seconds)} seconds" if seconds > 1 else "1 second"
    return TryLaterError(f"too many wrong passwords came from your address; try again in {span}", 429, seconds)


def network_of(address: str | None) -> str:
    """Returns the address under which attempts are counted: of IPv6 the first 64 bits, since each network has that many
    addresses to choose from; a text that is no address as it is."""
    try:
        read = ipaddress.ip_address(address or "")
    except ValueError:
        return (address or "unknown")[:64]
    if isinstance(read, ipaddress.IPv6Address):
        if read.ipv4_mapped is not None:
            return str(read.ipv4_mapped)
        return str(ipaddress.ip_network((int(read) >> 64 << 64, 64)))
    return str(read)


async def _in(threads: ThreadPoolExecutor, function: Callable[[], Result]) -> Result:
    return await asyncio.get_running_loop().run_in_executor(threads, function)


def _lower_priority() -> None:
    """Lowers the priority of this thread, and of the lanes that it starts, so that a page comes first. Only Linux has
    a priority for each thread."""
    if os.uname().sysname == "Linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOW_PRIORITY)
