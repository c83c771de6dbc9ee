"""The bytes of a file in memory, in pages: those that were never written take no room and no time.

Files of a store are made at their full size, and most of a small store is never written.
"""

from __future__ import annotations

__all__ = ["PAGE", "SparseBytes"]

PAGE = 1 << 16
_ZEROS = bytes(PAGE)


class SparseBytes:
    """Bytes that can be read and written at any offset; what was never written is zero.

    A page never changes its size, so that a thread that reads one is in nobody's way; what looks at all pages looks at
    those of one moment.
    """

    __slots__ = ("_pages", "_size")

    def __init__(self, data: bytes = b"") -> None:
        self._pages: dict[int, bytearray] = {}
        self._size = 0
        self.write(data, 0)

    def __len__(self) -> int:
        """How many bytes there are."""
        return self._size

    def read(self, size: int, offset: int) -> bytes:
        """Return up to `size` bytes from `offset`, fewer at the end."""
        end = min(offset + size, self._size)
        if end <= offset:
            return b""
        number, start = divmod(offset, PAGE)
        if start + end - offset <= PAGE:
            return self._part(number, start, start + end - offset)
        parts = [self._part(number, start, PAGE)]
        last, rest = divmod(end, PAGE)
        parts += [self._part(each, 0, PAGE) for each in range(number + 1, last)]
        parts.append(self._part(last, 0, rest))
        return b"".join(parts)

    def write(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        """Write all of `data` at `offset`; the file grows where it must."""
        done, total = 0, len(data)
        while done < total:
            number, start = divmod(offset + done, PAGE)
            count = min(PAGE - start, total - done)
            page = self._pages.get(number)
            if page is None:
                page = self._pages[number] = bytearray(PAGE)
            page[start : start + count] = data[done : done + count]
            done += count
        if total:
            self._size = max(self._size, offset + total)

    def resize(self, size: int) -> None:
        """Cut, or grow with zeros, to `size` bytes."""
        if size < self._size:
            self.clear(size)
        self._size = size

    def clear(self, offset: int) -> None:
        """Make everything from `offset` on zero."""
        first, start = divmod(offset, PAGE)
        for number, page in list(self._pages.items()):
            if number == first and start:
                page[start:] = _ZEROS[start:]
            elif number >= first:
                del self._pages[number]

    def zero_from(self, offset: int) -> bool:
        """Whether everything from `offset` on is zero."""
        first, start = divmod(offset, PAGE)
        for number, page in list(self._pages.items()):
            at = start if number == first else 0
            if number >= first and page.count(0, at) < PAGE - at:
                return False
        return True

    def copy(self) -> SparseBytes:
        """Return another with the same content."""
        other = SparseBytes()
        other._pages = {number: page.copy() for number, page in list(self._pages.items())}
        other._size = self._size
        return other

    def _part(self, number: int, start: int, end: int) -> bytes:
        page = self._pages.get(number)
        return memoryview(page)[start:end].tobytes() if page is not None else _ZEROS[: end - start]
