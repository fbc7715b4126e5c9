; The setup program for Windows, made by packaging/build.py with Inno Setup 6: iscc /DVersion=1.2.3 /Fname onefill.iss
; For this user alone, without administrator rights. An upgrade replaces the program and touches no ledger; removing it asks.

#ifndef Version
  #error Version is missing: packaging/build.py passes it
#endif

[Setup]
AppId={{6E2A0C8B-6B0B-4C39-9C2E-0F4C2B8D7E51}
AppName=Onefill
AppVersion={#Version}
AppPublisher=Onefill
DefaultDirName={localappdata}\Programs\Onefill
DefaultGroupName=Onefill
DisableProgramGroupPage=yes
PrivilegesRequired=lowest
ArchitecturesAllowed=x64compatible arm64
ArchitecturesInstallIn64BitMode=x64compatible arm64
OutputDir=..\..\dist
SetupIconFile=..\..\build\icons\onefill.ico
UninstallDisplayIcon={app}\onefill.exe
LicenseFile=..\..\LICENSE
Compression=lzma2
SolidCompression=yes
WizardStyle=modern
; A running Onefill is asked to close, as by its own window: it stops in order and leaves nothing half sent.
CloseApplications=yes
RestartApplications=no

[Tasks]
Name: desktopicon; Description: "{cm:CreateDesktopIcon}"; Flags: unchecked
Name: startup; Description: "Start Onefill when I sign in"; Flags: unchecked

[InstallDelete]
; What an older version brought and this one does not must not be loaded by accident.
Type: filesandordirs; Name: "{app}\_internal"

[Files]
Source: "..\..\dist\onefill\*"; DestDir: "{app}"; Flags: ignoreversion recursesubdirs createallsubdirs

[Icons]
Name: "{group}\Onefill"; Filename: "{app}\onefill.exe"
Name: "{autodesktop}\Onefill"; Filename: "{app}\onefill.exe"; Tasks: desktopicon

[Registry]
Root: HKCU; Subkey: "Software\Microsoft\Windows\CurrentVersion\Run"; ValueType: string; ValueName: "Onefill"; ValueData: """{app}\onefill.exe"""; Tasks: startup; Flags: uninsdeletevalue

[Run]
Filename: "{app}\onefill.exe"; Description: "{cm:LaunchProgram,Onefill}"; Flags: nowait postinstall skipifsilent

[Code]
procedure CurUninstallStepChanged(CurUninstallStep: TUninstallStep);
var
  Home: String;
begin
  if CurUninstallStep <> usPostUninstall then
    Exit;
  Home := ExpandConstant('{localappdata}\onefill');
  if DirExists(Home) and not UninstallSilent then
    if SuppressibleMsgBox('Delete the ledger, the settings and the backups too?' + #13#10 + Home + #13#10 +
        'They are the record of what was traded. "No" keeps them.', mbConfirmation, MB_YESNO or MB_DEFBUTTON2, IDNO) = IDYES then
      DelTree(Home, True, True, True);
end;
