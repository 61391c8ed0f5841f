"""What ranks say to one another: that they make the same call, and tensors.

Whatever goes wrong between them is one RuntimeError with the rank that was waited for.
"""

import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import torch
import torch.distributed as dist

from warpsmith.distributed._layout import Mesh

# Keys and values of so many steps have memory: those in use, those on their way, and those before,
# in whose place the next may come while they are still read.
_SLOTS = 3


class _Known:
    """What ranks of a group have agreed on."""

    def __init__(self) -> None:
        self.calls = 0
        self.agreed: set[str] = set()
        self.generation: int | None = None  # of the groups that have had the store


_known: "weakref.WeakKeyDictionary[Any, _Known]" = weakref.WeakKeyDictionary()


class Ranks:
    """A group as one call sees it."""

    def __init__(self, name: str, group: dist.ProcessGroup | None, device: torch.device) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise RuntimeError(f"{name}: torch.distributed.init_process_group comes first")
        self.name = name
        self.group = dist.group.WORLD if group is None else group
        self.rank = dist.get_rank(self.group)
        self.count = dist.get_world_size(self.group)
        if self.rank < 0:
            raise ValueError(f"{name}: this process is no member of the group")
        self._peers = dist.get_process_group_ranks(self.group)
        try:
            self._timeout = self.group._get_backend(device).options._timeout
        except RuntimeError as error:
            raise ValueError(
                f"{name}: the group has no backend for tensors on {device.type}: gloo has one for "
                "cpu, nccl for cuda"
            ) from error

    def agree(self, call: str) -> None:
        """Raises a ValueError on every rank where one of them makes another call.

        Asked once for each call that is new: ranks that have made the same calls find it new
        together, so that none asks alone; but one whose call differs does, and is told so in time.
        It goes through the group's store, not through the group, where the others wait for tensors.
        """
        if self.count == 1:
            return
        known = _known.setdefault(self.group, _Known())
        known.calls += 1
        if call in known.agreed:
            return
        store = dist.distributed_c10d._get_process_group_store(self.group)
        keys: list[str] = []
        try:
            if known.generation is None:  # keys of a group that was destroyed are still there
                known.generation = (store.add("warpsmith/ranks", 1) - 1) // self.count
            place = f"warpsmith/{known.generation}/{known.calls}"
            keys = [f"{place}/{rank}" for rank in range(self.count)]
            store.set(keys[self.rank], call)
            store.wait(keys, self._timeout)
            calls = [store.get(key).decode() for key in keys]
        except RuntimeError as error:
            missing = [rank for rank, key in enumerate(keys) if not _has(store, key)]
            who = f"ranks {missing}" if missing else "the store"
            raise RuntimeError(
                f"{self.name}: rank {self.rank} of {self.count} makes a new call ({call}), and "
                f"{who} did not come to agree on it in time: dead, or making another call"
            ) from error
        if len(set(calls)) > 1:
            told = "; ".join(f"rank {rank}: {theirs}" for rank, theirs in enumerate(calls))
            raise ValueError(f"{self.name}: ranks make different calls: {told}")
        known.agreed.add(call)

    # ---- Tensors --------------------------------------------------------------------------------

    def send(
        self,
        tensors: Sequence[torch.Tensor],
        to: int,
        receive: Sequence[torch.Tensor],
        source: int,
        tag: int,
    ) -> Callable[[], None]:
        """Begins to send tensors to a rank and to receive others; what it gives waits for both.

        All are contiguous. On CUDA it is the current stream that waits, and that is waited for.
        Tags, from `tag` on, keep messages apart that are under way at one time.
        """
        pairs = [(dist.isend, to, tensors), (dist.irecv, source, receive)]

        def begin() -> list[Any]:
            return dist.batch_isend_irecv(
                [
                    dist.P2POp(how, x, self._peers[peer], self.group, tag + i)
                    for how, peer, all_of_them in pairs
                    for i, x in enumerate(all_of_them)
                    if x.numel() > 0
                ]
            )

        if all(x.numel() == 0 for x in (*tensors, *receive)):
            return lambda: None
        works = self._guarded(begin, source, to)

        def wait() -> None:
            while works:
                work = works.pop(0)
                try:
                    self._guarded(work.wait, source, to)
                except KeyboardInterrupt:  # it came while others are still on their way
                    with suppress(RuntimeError):
                        wait()
                    raise

        return wait

    def all_to_all(self, x: torch.Tensor, members: Sequence[int]) -> torch.Tensor:
        """x of [members, ...]: row m goes to member m, and what comes has row m from member m."""
        received = torch.empty_like(x)
        if x.numel() == 0:
            return received
        sizes = None
        if len(members) < self.count:
            sizes = [0] * self.count
            for member in members:
                sizes[member] = x.numel() // len(members)

        def exchange() -> None:
            dist.all_to_all_single(received.view(-1), x.view(-1), sizes, sizes, group=self.group)

        self._guarded(exchange, *members)
        return received

    def _guarded(self, action: Callable[[], Any], *peers: int) -> Any:
        try:
            return action()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # torch.distributed's DistError is one
            who = " and ".join(str(peer) for peer in sorted({*peers} - {self.rank}))
            first = str(error).strip().splitlines()
            raise RuntimeError(
                f"{self.name}: rank {self.rank} of {self.count} lost rank {who}, which died or "
                f"makes another call ({first[0] if first else type(error).__name__})"
            ) from error


def _has(store: Any, key: str) -> bool:
    try:
        return bool(store.check([key]))
    except RuntimeError:
        return False


class Ring:
    """The ring of a mesh that a rank belongs to: one member of each group."""

    def __init__(self, ranks: Ranks, mesh: Mesh) -> None:
        self.ranks = ranks
        self.count = mesh.ring
        self.place, self._member = divmod(ranks.rank, mesh.degree)
        self._degree = mesh.degree

    def _rank(self, place: int) -> int:
        return place % self.count * self._degree + self._member

    def pass_on(
        self,
        tensors: Sequence[torch.Tensor],
        receive: Sequence[torch.Tensor],
        hops: int = 1,
        tag: int = 0,
    ) -> Callable[[], None]:
        """Begins to send tensors so many places on, and to receive from as many places before."""
        to, source = self._rank(self.place + hops), self._rank(self.place - hops)
        return self.ranks.send(tensors, to, receive, source, tag)

    def rounds(
        self, tensors: Sequence[torch.Tensor], steps: int, sums: "Travelling | None" = None
    ) -> Generator[Sequence[torch.Tensor], None, None]:
        """Each step's tensors: first one's own, then those of the rank that many places before.

        The next are on their way while those of a step are used; `sums`, which a step adds to, are
        while the next adds. On CUDA what is used of a step is queued on the current stream after
        what is on its way, and that in one kernel: so NCCL's blocks stand in line before those of
        the step, which would leave no multiprocessor to them until its end.

        Whoever leaves a step early closes this, and so waits for what is on its way: a message that
        nobody waits for is lost, and with it the group, in which the other waits for it in vain.
        """
        here = [x.contiguous() for x in tensors]
        slots = [[torch.empty_like(x) for x in here] for _ in range(min(steps - 1, _SLOTS))]
        copies = Copies(here[0].device)
        copies.wait_for_now()
        used: list[Any] = []  # when each step's tensors were
        for step in range(steps):
            leaving: list[torch.Tensor] = []
            coming: list[torch.Tensor] = []
            if step + 1 < steps:
                leaving, coming = [*here], [*slots[step % _SLOTS]]
                if step >= _SLOTS:
                    copies.wait_for(used[step + 1 - _SLOTS])
            if sums is not None and step > 0:
                leaving += sums.leave()
                coming += sums.coming
                copies.wait_for_now()
            with copies.stream():
                wait = self.pass_on(leaving, coming)
            try:
                yield here
                used.append(copies.now())
            except BaseException:
                with suppress(RuntimeError):  # what was raised first is told, not a rank lost since
                    copies.end(wait)
                raise
            copies.end(wait)
            if step + 1 < steps:
                here = slots[step % _SLOTS]
            if sums is not None:
                sums.arrive(new=step > 0)


class Sum:
    """In f32, of what is found of rows of dimension 1; begun by what is found of all of them."""

    def __init__(self, like: torch.Tensor) -> None:
        self._shape, self._device = like.shape, like.device
        self._total: torch.Tensor | None = None

    def add(self, rows: slice, x: torch.Tensor) -> None:
        if self._total is None and x.shape == self._shape:
            self._total = x.to(torch.float32, memory_format=torch.contiguous_format)
        else:
            self.total[:, rows] += x

    @property
    def total(self) -> torch.Tensor:
        if self._total is None:
            self._total = torch.zeros(self._shape, dtype=torch.float32, device=self._device)
        return self._total

    @total.setter
    def total(self, total: torch.Tensor) -> None:
        self._total = total


class Travelling:
    """Sums that follow the tensors of a ring they belong to, from rank to rank.

    Each rank adds what it finds to what the one before has sent, and sends it on under the next
    step's arithmetic.
    """

    def __init__(self, like: Sequence[torch.Tensor]) -> None:
        self._sums = [Sum(x) for x in like]
        self._found: list[tuple[slice, Sequence[torch.Tensor]]] = []
        self.coming: list[torch.Tensor] = []

    @property
    def here(self) -> list[torch.Tensor]:
        return [sum.total for sum in self._sums]

    def add(self, rows: slice, found: Sequence[torch.Tensor]) -> None:
        """Adds to those rows, when what the rank before has sent is there."""
        self._found.append((rows, found))

    def leave(self) -> list[torch.Tensor]:
        """What is sent on; there is room for as much to come."""
        leaving = self.here
        self.coming = self.coming or [torch.empty_like(x) for x in leaving]
        return leaving

    def arrive(self, new: bool) -> None:
        """All of a step is here: what was found in it is added to what came, if anything did."""
        if new:
            came, self.coming = self.coming, self.here
            for sum, total in zip(self._sums, came, strict=True):
                sum.total = total
        for rows, found in self._found:
            for sum, x in zip(self._sums, found, strict=True):
                sum.add(rows, x)
        self._found = []


_streams: dict[torch.device, torch.cuda.Stream] = {}


class Copies:
    """A stream for copies beside the current one; on the CPU nothing."""

    def __init__(self, device: torch.device) -> None:
        self._side = None
        if device.type == "cuda":
            if device not in _streams:
                _streams[device] = torch.cuda.Stream(device)
            self._side = _streams[device]
            self._main = torch.cuda.current_stream(device)

    def stream(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._side is None else torch.cuda.stream(self._side)

    def now(self) -> Any:
        """What has been queued until now, to be waited for."""
        return None if self._side is None else self._main.record_event()

    def wait_for(self, event: Any) -> None:
        """Copies that follow wait for that."""
        if self._side is not None:
            self._side.wait_event(event)

    def wait_for_now(self) -> None:
        self.wait_for(self.now())

    def end(self, wait: Callable[[], None]) -> None:
        """Waits for copies by what their beginning gave; so does the current stream."""
        with self.stream():
            wait()
        if self._side is not None:
            self._main.wait_stream(self._side)
