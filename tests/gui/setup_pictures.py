"""`python -m tests.gui.setup_pictures OUTDIR [NAME...]`: the setup tools, light and dark, on a real engine.

Needs a display or QT_QPA_PLATFORM=offscreen. Everything in the pictures is made up, tokens are blanked.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

os.environ["QT_API"] = "pyside6"

import PySide6.QtWidgets  # noqa: F401
import qasync
from PySide6.QtWidgets import QApplication, QLineEdit

from app.engine import Engine
from app.gui.application import Application
from app.gui.builder_dialog import BuilderDialog
from app.gui.check_dialog import CheckDialog
from app.gui.guide_dialog import GuideDialog
from app.gui.keylab_dialog import KeyLabDialog
from app.gui.samples import ALERT_MESSAGE
from app.gui.settings_dialog import SettingsDialog
from app.gui.setup import Setup
from app.gui.theme import dark_palette, light_palette
from app.gui.tool_dialog import ToolDialog
from app.gui.window import Window
from app.secrets import Secrets
from tests.gui.hands import until
from tests.gui.real import fill
from tests.gui.setup_kit import there

SIZE = (1280, 800)
PALETTES = {"light": light_palette, "dark": dark_palette}
BROKEN = '{\n  "symbol": "{{ticker}}",\n  "action": "bay",\n  "quantity": "10",\n  "price": "{{close}}"\n}'


async def _check(setup: Setup) -> ToolDialog:
    dialog: CheckDialog = there(setup.open_check(ALERT_MESSAGE))
    await until(lambda: dialog.found)
    return dialog


async def _broken(setup: Setup) -> ToolDialog:
    dialog: CheckDialog = there(setup.open_check(BROKEN))
    await until(lambda: dialog.found)
    return dialog


async def _builder(setup: Setup) -> ToolDialog:
    dialog: BuilderDialog = there(setup.open_builder())
    await until(lambda: not dialog.is_checking)
    return dialog


async def _pine(setup: Setup) -> ToolDialog:
    dialog: BuilderDialog = there(setup.open_builder())
    dialog.template.setCurrentIndex(2)
    dialog.tabs.setCurrentWidget(dialog.pine)
    await until(lambda: not dialog.is_checking)
    return dialog


async def _keylab(setup: Setup) -> ToolDialog:
    dialog: KeyLabDialog = there(setup.open_keylab())
    await until(lambda: dialog.tried)
    for name in ("order_id", "position"):
        dialog.fields[name].setChecked(False)
    await until(lambda: dialog.tried is not None and dialog.tried.conflicts)
    return dialog


async def _settings(setup: Setup, row: int) -> SettingsDialog:
    dialog: SettingsDialog = there(setup.open_settings())
    await until(lambda: dialog.draft)
    dialog.list.setCurrentRow(row if row >= 0 else dialog.list.count() + row)
    return dialog


async def _source(setup: Setup) -> ToolDialog:
    return await _settings(setup, 2)


async def _secrets(setup: Setup) -> ToolDialog:
    return await _settings(setup, -1)


async def _wrong(setup: Setup) -> ToolDialog:
    dialog = await _settings(setup, 2)
    field = there(dialog.form).rows["max_age"].field
    assert isinstance(field, QLineEdit)
    field.setText("3 parsecs")
    field.textEdited.emit("3 parsecs")
    await until(lambda: dialog.problem)
    return dialog


async def _guide(setup: Setup) -> ToolDialog:
    dialog: GuideDialog = there(setup.open_guide())
    dialog.send.click()
    await until(dialog.show_story.isEnabled)
    return dialog


SCENES: dict[str, Callable[[Setup], Awaitable[ToolDialog]]] = {
    "guide": _guide,
    "builder": _builder,
    "builder-pine": _pine,
    "check": _check,
    "check-broken": _broken,
    "keylab": _keylab,
    "settings-source": _source,
    "settings-wrong": _wrong,
    "settings-secrets": _secrets,
}


async def _picture(out: Path, scene: str, palette: str) -> None:
    QApplication.setPalette(PALETTES[palette]())
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        engine = Engine(home, port=0, secrets=lambda: Secrets(home, {}, keyring=None))
        await engine.start()
        window = Window(engine)
        window.show()
        await until(lambda: "Ready" in window.strip.cells["account:paper"].word.text())
        await fill(engine)
        dialog = await SCENES[scene](window.setup)
        dialog.resize(*SIZE)
        await asyncio.sleep(0.3)
        dialog.grab().save(str(out / f"setup-{scene}-{palette}.png"))
        window.say_stopping()
        await engine.stop()
        await window.shut()


async def _all(out: Path, wanted: list[str]) -> None:
    for scene in SCENES:
        for palette in PALETTES:
            if not wanted or scene in wanted:
                await _picture(out, scene, palette)


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__)
        return 2
    out = Path(arguments[0])
    out.mkdir(parents=True, exist_ok=True)
    application = Application(sys.argv[:1])
    with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(application)) as runner:
        runner.run(_all(out, arguments[1:]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
