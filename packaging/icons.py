"""Draws the program's icon in the formats that Windows and macOS want: `icons.py FOLDER`. Run by build.py."""

import sys
from pathlib import Path

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QGuiApplication, QIcon

SVG = Path(__file__).resolve().parent.parent / "resources/icon.svg"


def main(folder: Path) -> None:
    """Raises OSError where a picture cannot be written."""
    app = QGuiApplication([])
    folder.mkdir(parents=True, exist_ok=True)
    picture = QIcon(str(SVG)).pixmap(QSize(256, 256), 1.0).toImage()
    is_drawn = not picture.isNull() and any(picture.pixelColor(x, 128).alpha() for x in range(256))
    if not is_drawn:
        raise OSError(f"{SVG} cannot be drawn")
    for name in ("onefill.ico", "onefill.icns", "onefill.png"):
        drawn = picture.scaled(256, 256, Qt.AspectRatioMode.KeepAspectRatio)
        if not drawn.save(str(folder / name)):
            raise OSError(f"{name} cannot be written")
    app.quit()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
