"""A disk that may lose, at a power cut, whatever was not synced.

The operations are done in a real folder, so that the code under test sees what a running system
shows. Beside it stands what the disk has for sure, and what is under way: of the changes of a
folder any may have arrived (a rename as a whole, and changes of one name in their order), of the
bytes of a file any sectors and any length that it had. A file's sync says nothing about its name,
and the other way round.
"""

import errno
import itertools
import math
import os
import random
import sys
from pathlib import Path

from hmnn.store import DISK, Files

SECTOR = 512
MANY = 48
"""So many outcomes of one power cut are looked at; if there are more, they are drawn."""


class Crash(BaseException):
    """The process is gone."""


class Node:
    """A file or a folder: what is on the disk for sure, and later versions of it."""

    def __init__(self, content):
        self.sure, self.under_way = content, []

    @property
    def now(self):
        return self.outcome(self.under_way)

    def synced(self):
        self.sure, self.under_way = self.now, []


class Folder(Node):
    """Entries by name; under way are changes: entries that go, and entries that come."""

    def outcome(self, arrived):
        entries = dict(self.sure)
        for gone, come in arrived:
            kept = {name: node for name, node in entries.items() if gone.get(name) is not node}
            entries = kept | come
        return entries

    def outcomes(self, chance):
        """Grown change by change: one that shares a name with a lost one is lost too."""
        found = [((), frozenset())]
        for change in self.under_way:
            names = change[0].keys() | change[1].keys()
            with_it = [((*arrived, change), lost) for arrived, lost in found if not lost & names]
            found = [*with_it, *((arrived, lost | names) for arrived, lost in found)]
            if len(found) > MANY:
                found = [found[0], *chance.sample(found[1:], MANY - 1)]
        return [self.outcome(arrived) for arrived, _ in found]


class File(Node):
    """Bytes; under way are writes at a place, and cuts to a size."""

    def outcome(self, arrived):
        content = self.sure
        for place, written in arrived:
            content = content.ljust(place, b"\0")
            after = b"" if written is None else content[place + len(written) :]
            content = content[:place] + (written or b"") + after
        return content

    def outcomes(self, chance):
        versions = [self.outcome(self.under_way[:i]) for i in range(len(self.under_way) + 1)]
        if len(versions) == 1:
            return versions
        new, sectors = versions[-1], range(-(-len(versions[-1]) // SECTOR))
        lost = [_mixed([versions[0], new], len(new), lambda i, j=j: i != j) for j in sectors]
        striped = [
            _mixed(pair, max(map(len, pair)), lambda i: i % 2)
            for pair in itertools.permutations(dict.fromkeys(versions), 2)
        ]
        half = new[: (len(versions[0]) + len(new)) // 2]
        drawn = _mixed(versions, len(new), lambda i: chance.randrange(len(versions)))
        return list(dict.fromkeys([*versions, half, *lost, *striped, drawn]))


def _mixed(versions, length, which):
    """Each sector from one of the versions, zeros where that one was shorter."""
    sectors = (
        versions[which(i // SECTOR)][i : i + SECTOR].ljust(SECTOR, b"\0")
        for i in range(0, length, SECTOR)
    )
    return b"".join(sectors)[:length]


class Disk:
    """Operations on files below a folder; `look` is called after each of them.

    Args:
        root: an empty folder, which is there for sure.
        look: told after each operation; it may ask for `outcomes`.
        stop: the number of the operation at which the process is gone.
        error: the number of an operation that fails.
        leave_out: the number of a sync or rename below the root, in `calls`, that is not done.
    """

    def __init__(self, root, look, stop=None, error=None, leave_out=None):
        self.root, self.tree, self.look = Path(root), Folder({}), look
        self.stop, self.error, self.leave_out = stop, error, leave_out
        self.calls, self.done, self.handles, self.chance = [], 0, {}, random.Random(0)
        self.strange = (stop, error, leave_out) == (None, None, None)
        """Whether what was asked for has happened."""
        self.files = Files(*(self._operation(name) for name in Files._fields))

    def outcomes(self):
        """Trees of names and bytes that a power cut now may leave."""
        nodes = [node for node in self._reachable() if node.under_way]
        choices = {node: node.outcomes(self.chance) for node in nodes}
        if math.prod(map(len, choices.values())) <= MANY:
            picks = itertools.product(*choices.values())
            return [self._cut(dict(zip(nodes, pick, strict=True))) for pick in picks]
        one = [
            {node: node.sure if little else node.now for node in nodes} | {chosen: outcome}
            for chosen in nodes
            for outcome in choices[chosen]
            for little in (True, False)
        ]
        drawn = ({node: self.chance.choice(choices[node]) for node in nodes} for _ in range(MANY))
        return [self._cut(pick) for pick in [*one, *drawn]]

    def _cut(self, picked, folder=None):
        folder = folder or self.tree
        entries = picked.get(folder, folder.sure)
        return {
            name: self._cut(picked, node)
            if isinstance(node, Folder)
            else picked.get(node, node.sure)
            for name, node in entries.items()
        }

    def _reachable(self):
        found, todo = {}, [self.tree]
        while todo:
            node = todo.pop()
            if node not in found:
                found[node] = None
                if isinstance(node, Folder):
                    todo += [
                        *node.sure.values(),
                        *(n for _, come in node.under_way for n in come.values()),
                    ]
        return list(found)

    def _operation(self, name):
        real, ours = getattr(DISK, name), getattr(self, f"_{name}")

        def call(*arguments):
            number, self.done = self.done, self.done + 1
            if self.stop is not None and number >= self.stop:
                self.strange = True
                raise Crash
            if number == self.error:
                self.strange = True
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            if name == "rename" or (name == "fsync" and arguments[0] in self.handles):
                self.calls.append((name, _site()))
                if len(self.calls) - 1 == self.leave_out:
                    self.strange = True
                    return None
            result = ours(real, *arguments)
            self.look()
            return result

        return call

    def _inside(self, path):
        path = Path(path)
        return self.root in path.parents and not path.name.endswith(".lock")

    def _find(self, path):
        node = self.tree
        for name in Path(path).relative_to(self.root).parts:
            node = node.now[name]
        return node

    def _change(self, path, gone, come):
        if self._inside(path):
            self._find(Path(path).parent).under_way.append((gone, come))

    def _open(self, real, path, flags, *mode):
        handle = real(path, flags, *mode)
        if self._inside(path) or Path(path) == self.root:
            if flags & os.O_CREAT and Path(path).name not in self._find(Path(path).parent).now:
                self._change(path, {}, {Path(path).name: File(b"")})
            self.handles[handle] = self._find(path)
        return handle

    def _write(self, real, handle, data):
        place, count = os.lseek(handle, 0, os.SEEK_CUR), real(handle, data)
        self.handles[handle].under_way.append((place, bytes(data[:count])))
        return count

    def _truncate(self, real, handle, size):
        real(handle, size)
        self.handles[handle].under_way.append((size, None))

    def _fsync(self, real, handle):
        if handle in self.handles:  # else it is of a folder above the root
            self.handles[handle].synced()

    def _close(self, real, handle):
        real(handle)
        self.handles.pop(handle, None)

    def _rename(self, real, old, new):
        real(old, new)
        node = self._find(old)
        self._change(new, {Path(old).name: node}, {Path(new).name: node})

    def _mkdir(self, real, path, mode):
        real(path, mode)
        self._change(path, {}, {Path(path).name: Folder({})})

    def _remove(self, real, path):
        real(path)
        self._change(path, {Path(path).name: self._find(path)}, {})

    _rmdir = _remove


def _site():
    """Where in the store this was asked for: function and line, from the outermost on."""
    frame, found = sys._getframe(2), []
    while frame is not None:
        if "hmnn/store" in frame.f_code.co_filename:
            found.append(f"{frame.f_code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return " > ".join(reversed(found))


def written(tree, folder):
    """A tree of names and bytes as files."""
    for name, content in tree.items():
        if isinstance(content, dict):
            (folder / name).mkdir()
            written(content, folder / name)
        else:
            (folder / name).write_bytes(content)
    return folder
