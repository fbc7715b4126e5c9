"""Secrets in the settings: put into the keyring, never shown, never in the file.

The value is read once from the field, handed to the engine, and the field is emptied whatever comes of it.
"""

from __future__ import annotations

import uuid

from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QLineEdit, QPushButton, QVBoxLayout, QWidget

from app.gui.settings_draft import Section, SettingsDraft
from app.gui.theme import scaled
from app.gui.tool_dialog import ToolDialog, quiet_label
from app.settings.forms import default_text

FIELDS_OF = {"alpaca": ("key_id", "secret_key"), "paper": ()}
"""By broker: the secrets that it needs. One that is not here can still be typed."""
TUNNELS_WITH_TOKEN = frozenset({"cloudflared-named", "ngrok"})


def secret_names(draft: SettingsDraft) -> list[str]:
    """The names of the secrets that these settings use."""
    names = [
        f"source.{each.name}.{'secret' if _said(each, 'auth') == 'body' else 'token'}"
        for each in draft.of("sources")
    ]
    for section in draft.of("accounts"):
        wanted = FIELDS_OF.get(_said(section, "broker"), ("key_id", "secret_key"))
        names += [f"account.{section.name}.{each}" for each in wanted]
    names += [f"notice.{each.name}.url" for each in draft.of("notices") if _said(each, "to") == "url"]
    names += ["tunnel.token" for each in draft.of("tunnel") if _said(each, "kind") in TUNNELS_WITH_TOKEN]
    return names


def _said(section: Section, name: str) -> str:
    """What counts: what was typed, else the file, else the default."""
    key = next(key for key in section.table.keys if key.name == name)
    return section.text(key) or default_text(key)


class SecretsPage(QWidget):
    def __init__(self, dialog: ToolDialog, draft: SettingsDraft) -> None:
        super().__init__(dialog)
        self._dialog = dialog
        column = QVBoxLayout(self)
        column.setContentsMargins(2, 2, 12, 2)
        title = QLabel(self.tr("Secrets"), self)
        title.setFont(scaled(self.font(), 1.2, bold=True))
        column.addWidget(title)
        column.addWidget(
            quiet_label(
                self.tr(
                    "Tokens, passwords and keys are kept in this system's keyring, never in config.toml. "
                    "What is set here is not shown again. A source's new token or secret counts at once, "
                    "an account's from the next start."
                ),
                self,
            )
        )
        self.name = QComboBox(self)
        self.name.setEditable(True)
        self.name.setAccessibleName(self.tr("Name of the secret"))
        self.name.addItems(secret_names(draft))
        self.value = QLineEdit(self)
        self.value.setEchoMode(QLineEdit.EchoMode.Password)
        self.value.setAccessibleName(self.tr("Its value"))
        self.value.setPlaceholderText(self.tr("Paste it here"))
        self.keep = QPushButton(self.tr("&Keep it"), self)
        self.keep.setAutoDefault(False)
        self.keep.setEnabled(False)
        self.value.textChanged.connect(lambda text: self.keep.setEnabled(bool(text.strip())))
        self.keep.clicked.connect(self._keep)
        row = QHBoxLayout()
        row.addWidget(self.name, 3)
        row.addWidget(self.value, 4)
        row.addWidget(self.keep)
        column.addSpacing(6)
        column.addLayout(row)
        column.addStretch(1)

    def _keep(self) -> None:
        name, value = self.name.currentText().strip(), self.value.text().strip()
        self.value.clear()
        if name and value:
            self._dialog.run("keeps a secret", self._kept(name, value))

    async def _kept(self, name: str, value: str) -> None:
        answer = await self._dialog.tools.engine.command(
            "secret set", {"name": name, "value": value}, actor="window", request_id=str(uuid.uuid4())
        )
        if self._dialog.is_over:
            return
        statement = str(answer.get("statement", ""))
        in_file = answer.get("where") == "file"
        taken = self.tr("It counts {when}.").format(when=answer.get("taken", ""))
        self._dialog.notice.say(f"{statement} {taken}".strip(), "warning" if in_file else "ok")
