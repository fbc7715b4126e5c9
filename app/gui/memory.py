"""What the window remembers from one day to the next: size, widths, the chosen tab. An ini file in the home.

Nothing in it matters: a broken or missing file means the size that the window was made with.
"""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QByteArray, QObject, QSettings

FILE_NAME = "window.ini"


class Memory:
    def __init__(self, home: Path, parent: QObject) -> None:
        self._settings = QSettings(str(home / FILE_NAME), QSettings.Format.IniFormat, parent)

    def state(self, name: str) -> QByteArray | None:
        """A state that Qt saved, or None."""
        value = self._settings.value(name)
        return value if isinstance(value, QByteArray) else None

    def text(self, name: str) -> str:
        value = self._settings.value(name)
        return value if isinstance(value, str) else ""

    def keep(self, name: str, value: QByteArray | str) -> None:
        self._settings.setValue(name, value)

    def save(self) -> None:
        """Writes the file."""
        self._settings.sync()
