#!/usr/bin/env python3
"""Packs what `make test-all` has installed here, for a machine with more cores and no network.

pack.py FOLDER [MIB]: writes FOLDER/root.0.tar.xz and so on, each of about MIB (56) and complete in itself: the packages
that tools/install.sh names with all that they depend on, the Python that runs here, and of build/ what was fetched and
built once. All of them unpacked into one folder are a root for tools/elsewhere/enter.sh.
workshop/checks_elsewhere.md says how they are used.
"""

import os
import re
import subprocess
import sys
import sysconfig

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What the packages of install.sh take for granted.
TOOLS = """bash coreutils debianutils diffutils file findutils grep gzip hostname libc-bin mawk perl procps psmisc sed tar
util-linux xz-utils make dpkg apt iproute2 curl zstd""".split()
NOT_PACKED = {"chromium-headless-shell"}  # of the dashboard's stage, which does not run there
LEFT_OUT = re.compile(r"^/usr/share/(doc|man|locale|info|lintian|bug|gdb|zoneinfo|icons)/|^/usr/(lib32|libx32)/"
                      r"|/libicu(data|test|tu|io)\.a$|/libgrpc[^/]*\.a$|libclang_rt\.(hwasan|memprof|msan|dfsan|scudo|xray|cfi|gwp)"
                      r"|-i386\.(a|so)$|lto-dump-\d+$|/site-packages/(?!.*build/)|/python3\.\d+/(test|idlelib|tkinter|config-)|\.pyc$")
FOUND_ANEW = ["/var/lib/dpkg", "/etc/alternatives", "/etc/apt", "/etc/ssl", "/etc/ld.so.conf.d", "/etc/perl"]
ETC = ["passwd", "group", "shadow", "nsswitch.conf", "ld.so.conf", "hosts", "debian_version", "profile"]


def installed_packages():
    """Name to the fields that say what it needs, and the names that others provide."""
    with open("/var/lib/dpkg/status") as file:
        paragraphs = [dict(re.findall(r"^(\S+?): (.*)$", text, re.M)) for text in file.read().split("\n\n")]
    packages = {fields["Package"]: fields for fields in paragraphs if fields.get("Status", "").endswith(" installed")}
    provided = {name: package for package, fields in packages.items()
                for name in re.findall(r"[^,\s(]+(?=\s*(?:\(|,|$))", fields.get("Provides", ""))}
    return packages, provided


def wanted_packages(packages, provided):
    with open(f"{REPOSITORY}/tools/install.sh") as file:
        lists = re.findall(r"packages\+?=\((.*?)\)", file.read(), re.S)
    todo = TOOLS + [name for text in lists for name in re.sub(r"#.*", "", text).split()]
    todo = [name for name in todo if name not in NOT_PACKED]
    todo += [name for name, fields in packages.items()
             if fields.get("Essential") == "yes" or fields.get("Priority") == "required"]
    wanted = set()
    while todo:
        name = todo.pop().split(":")[0]
        name = name if name in packages else provided.get(name)
        if name is None or name in wanted:
            continue
        wanted.add(name)
        for field in ("Depends", "Pre-Depends"):
            for group in packages[name].get(field, "").split(","):
                choices = [re.sub(r"[\s(].*", "", choice.strip()).split(":")[0] for choice in group.split("|")]
                todo += [choice for choice in choices if choice in packages or choice in provided][:1]
    return wanted


def files_of(package):
    for path in (f"/var/lib/dpkg/info/{package}.list", f"/var/lib/dpkg/info/{package}:amd64.list"):
        if os.path.exists(path):
            with open(path) as file:
                return file.read().splitlines()
    return []


def files_below(folder):
    return [os.path.join(path, name) for path, folders, names in os.walk(folder)
            for name in names + [entry for entry in folders if os.path.islink(os.path.join(path, entry))]]


def links_in(folder):
    return [entry.path for entry in os.scandir(folder) if entry.is_symlink()]


def all_files():
    packages, provided = installed_packages()
    paths = [path for package in wanted_packages(packages, provided) for path in files_of(package)]
    paths += [path for folder in FOUND_ANEW for path in files_below(folder)]
    paths += [f"/etc/{name}" for name in ETC]
    for folder in ("/usr/bin", "/usr/sbin", "/usr/lib/x86_64-linux-gnu"):
        paths += links_in(folder)
    if not sys.prefix.startswith("/usr"):
        paths += files_below(sys.base_prefix)
    for part in ("venv", "lexbor", "grammar"):
        paths += files_below(f"{REPOSITORY}/build/{part}")
    kept = {}
    for path in paths:
        if LEFT_OUT.search(path) and not path.startswith(REPOSITORY) or not os.path.lexists(path):
            continue
        # /lib and others are links: a file is packed under the folder that holds it.
        path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        if os.path.islink(path) or os.path.isfile(path):
            kept[path] = 0 if os.path.islink(path) else os.path.getsize(path)
    return kept


def packed_size(path, size):
    """About what it takes compressed."""
    return size * (0.12 if path.endswith((".h", ".hpp", ".ipp", ".py", ".pm", ".pl")) else 0.27)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder, part_bytes = sys.argv[1], int(float(sys.argv[2] if len(sys.argv) > 2 else 56) * 1e6)
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(os.path.join(sysconfig.get_path("stdlib"), "os.py")):
        sys.exit("the Python that runs this has no library of its own")
    parts = [[]]
    weight = 0.0
    for path, size in sorted(all_files().items()):
        weight += packed_size(path, size)
        if weight > part_bytes:
            parts.append([])
            weight = packed_size(path, size)
        parts[-1].append(path[1:])
    # A root's folders that are links, before anything is unpacked through them.
    parts[0] += [name for name in ("bin", "sbin", "lib", "lib64") if os.path.islink(f"/{name}")]
    for index, names in enumerate(parts):
        target = os.path.join(folder, f"root.{index}.tar.xz")
        subprocess.run(f"tar -C / --no-recursion -T - -cf - | xz -T0 -6 > {target}", shell=True, check=True,
                       input="\n".join(names), text=True)
        print(f"{target}: {len(names)} files, {os.path.getsize(target) / 2**20:.0f} MiB", flush=True)
    print("all packed")


if __name__ == "__main__":
    main()
