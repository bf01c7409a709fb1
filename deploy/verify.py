"""Execute the Dockerfiles without Docker, in a clean Debian, and use the two images: `sudo python3 deploy/verify.py`.

There is one folder per stage. In place of python:3.13-slim, debootstrap makes a Debian 13 with Debian's Python 3.13.
Then the training image trains and publishes, and the service image serves what was published: as the users, with the
commands and variables of the Dockerfiles. Needs root, debootstrap, and access to the registries of Debian and PyPI.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
PACKAGES = "python3,python3-venv,ca-certificates,gcc,libc6-dev"
COMMANDS = """\
synthesize --out /tmp/raw --customers 500 --items 100 --interactions 5000 --seed 1
prepare /tmp/raw/events --items /tmp/raw/items.parquet --out /tmp/shop
train /tmp/shop --out /tmp/model --set dimension=20 --set epochs=2
publish /tmp/model --items /tmp/shop --histories
"""
KEY = "a-key-for-this-check"


@dataclass
class Image:
    """A folder with a root file system, and what a Dockerfile says about its use."""

    root: Path
    user: str = "0"
    folder: str = "/"
    variables: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"})
    commands: dict[str, list[str]] = field(default_factory=dict)
    """ENTRYPOINT, CMD, HEALTHCHECK."""

    def start(self, command: list[str]) -> subprocess.Popen[bytes]:
        """Start a command. It is in a process namespace of its own, so that nothing of it is left when it is killed."""
        variables = [f"{name}={value}" for name, value in self.variables.items()]
        inside = ["chroot", f"--userspec={self.user}:{self.user}", str(self.root), "env", "-i", *variables]
        inside += ["sh", "-c", 'cd "$0" && exec "$@"', self.folder, *command]
        # The shell stays: it is the first process of the namespace, and Linux would not kill one that changed its user.
        mounted = f"mount -t proc proc {self.root}/proc && {shlex.join(inside)}; exit $?"
        return subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", mounted])

    def run(self, *command: str) -> None:
        print("  $", shlex.join(command), flush=True)
        if code := self.start(list(command)).wait():
            sys.exit(f"{shlex.join(command)} ended with exit code {code}")

    @property
    def megabytes(self) -> int:
        return int(subprocess.check_output(["du", "-sxm", self.root]).split()[0])


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", dockerfile.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def build(dockerfile: Path, base: Path, folder: Path) -> Image:
    """Execute the instructions, one folder per stage; the last stage is the image."""
    stages: dict[str, Image] = {}
    image = Image(base)
    for name, rest in instructions(dockerfile):
        if name == "FROM":
            stage = rest.partition(" AS ")[2] or "image"
            image = stages[stage] = Image(folder / f"{dockerfile.suffix[1:]}-{stage}")
            shutil.rmtree(image.root, ignore_errors=True)
            subprocess.run(["cp", "-a", "--reflink=auto", base, image.root], check=True)
        elif name == "RUN":
            image.run("sh", "-c", rest)
        elif name == "COPY":
            origin, *names = rest.split() if rest.startswith("--from=") else ["", *rest.split()]
            origin_root = stages[origin.removeprefix("--from=")].root if origin else SOURCE
            target = image.root / image.folder.lstrip("/") / names.pop().lstrip("/")
            for one in (origin_root / name.lstrip("/") for name in names):
                place = target if one.is_dir() else target / one.name
                subprocess.run(["cp", "-a", "--no-preserve=ownership", one, place], check=True)
        elif name == "ENV":
            for pair in shlex.split(rest):
                key, _, value = pair.partition("=")
                image.variables[key] = value.replace("$PATH", image.variables["PATH"])
        elif name == "USER":
            image.user = rest
        elif name == "WORKDIR":
            image.folder = rest
            (image.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif name in ("ENTRYPOINT", "CMD", "HEALTHCHECK"):
            image.commands[name] = json.loads(rest.removeprefix("CMD "))
        elif name not in ("VOLUME", "EXPOSE"):
            sys.exit(f"{dockerfile}: {name} is not known here")
    print(f"{dockerfile.name}: {image.megabytes - Image(base).megabytes} MB in addition to the base image")
    return image


def make_base(folder: Path) -> Path:
    """A clean Debian with Python, which trusts the certificates that this machine trusts."""
    base = folder / "base"
    if not base.exists():
        partial = folder / "base.partial"
        shutil.rmtree(partial, ignore_errors=True)
        subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "trixie", partial],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        (partial / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        for shared in ("etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt"):
            shutil.copyfile(f"/{shared}", partial / shared)
        shutil.rmtree(partial / "var/cache/apt")
        partial.rename(base)
    return base


def check_training(image: Image, store: str) -> None:
    """Train and publish; the kernels must come from the image."""
    image.variables["LORENTZREC_STORE"] = store
    kernels = image.root / image.variables["NUMBA_CACHE_DIR"].lstrip("/")
    compiled = sorted((path, path.stat().st_mtime) for path in kernels.rglob("*.nb*"))
    assert compiled, "no kernels in the image"
    size = sum(path.stat().st_size for path, _ in compiled) / 1e6
    for arguments in COMMANDS.splitlines():
        image.run(*image.commands["ENTRYPOINT"], *arguments.split())
    now = sorted((path, path.stat().st_mtime) for path in kernels.rglob("*.nb*"))
    assert now == compiled, "kernels were compiled again"
    print(f"training used {len(compiled)} files of compiled kernels, {size:.1f} MB, and compiled nothing")


def check_service(image: Image, store: str | None) -> None:
    """Start the service as the image does, wait for its health check, and request a recommendation."""
    if store is not None:
        image.variables["LORENTZREC_STORE"] = store
    keys = image.root / image.commands["CMD"][-1].lstrip("/")
    keys.parent.mkdir(exist_ok=True)
    keys.write_text(KEY)
    image.run("sh", "-c", "test $(id -u) -ne 0 && ! python -c 'import numba' 2>/dev/null")
    service = image.start([*image.commands["ENTRYPOINT"], *image.commands["CMD"]])
    try:
        for _ in range(120):
            assert service.poll() is None, "the service ended"
            if image.start(["sh", "-c", shlex.join(image.commands["HEALTHCHECK"]) + " 2>/dev/null"]).wait() == 0:
                break
            time.sleep(0.5)
        for path, expected in (("/v1/users/c017/recommendations", b'"items":[{'), ("/", b"<!doctype html>")):
            request = urllib.request.Request(f"http://127.0.0.1:8000{path}", headers={"X-API-Key": KEY})
            content = urllib.request.urlopen(request, timeout=10).read()
            assert expected in content, content
            print(f"GET {path}: {len(content):,} bytes")
    finally:
        service.kill()
        service.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(".build/deploy"), help="for the stages: 3 GB")
    parser.add_argument("--store", help="publish to this store instead of a folder, such as postgresql://...")
    options = parser.parse_args()
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        sys.exit("run it as root, and install debootstrap first")
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    base = make_base(folder)
    training = build(SOURCE / "deploy/Dockerfile.train", base, folder)
    service = build(SOURCE / "deploy/Dockerfile.service", base, folder)
    check_training(training, options.store or "file:/tmp/store")
    if options.store is None:
        subprocess.run(["cp", "-a", training.root / "tmp/store", service.root / "store"], check=True)
    check_service(service, options.store)


if __name__ == "__main__":
    main()
