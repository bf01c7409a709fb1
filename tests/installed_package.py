"""What an installed package must do; `make package` runs this with the Python of an empty environment."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

PROGRAM = str(Path(sys.executable).with_name("lorentzrec"))


def run(*command: str, code: int = 0) -> str:
    """The output of a command, which must end with an exit code."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def main() -> None:
    import lorentzrec

    home = Path(lorentzrec.__file__).resolve()
    assert home.is_relative_to(Path(sys.prefix).resolve()), f"{home} is not in the environment {sys.prefix}"
    assert (home.parent / "py.typed").is_file()
    assert list((home.parent / "serving" / "page").glob("*.css")), "the page is not in the package"
    for program in ([PROGRAM], [sys.executable, "-m", "lorentzrec"]):
        assert version("lorentzrec") in run(*program, "--version")
    assert "reproduce" in run(PROGRAM, "--help")
    with tempfile.TemporaryDirectory() as folder:
        events, model = Path(folder, "events.csv"), Path(folder, "model")
        rows = [f"u{user},i{(user + step) % 12},{step}" for user in range(30) for step in range(4)]
        events.write_text("\n".join(["user,item,time", *rows]) + "\n")
        settings = ("--set", "dimension=4", "--set", "epochs=1", "--set", "seed=1")
        run(PROGRAM, "train", str(events), "--out", str(model), *settings)
        found = json.loads(run(PROGRAM, "recommend", str(model), "--history", "i1,i2", "-k", "3", "--json"))
        assert len(found["items"]) == 3, found
        hint = run(PROGRAM, "serve", f"file:{folder}/store", code=2)
        assert "pip install 'lorentzrec[serve]'" in hint, hint
    print("the installed package trains and recommends")


if __name__ == "__main__":
    main()
