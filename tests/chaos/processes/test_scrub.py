"""Secrets in outputs: all their forms are replaced, and nothing else."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote_plus

import pytest

from chaos.cluster.secured.credentials import jaas, new_password
from chaos.errors import UsageError
from chaos.kafka.security import Access, Security
from chaos.processes.process import ProcessId, spawn
from chaos.processes.scrub import HIDDEN, Scrubber
from chaos.run.directory import Run
from tests.support.secured import PASSWORDS

PASSWORD = PASSWORDS["PLAIN"]
FORMS = {
    "as it is": PASSWORD,
    "its second line": PASSWORD.split("\n")[1],
    "JSON": json.dumps({"password": PASSWORD}),
    "JSON with letters": json.dumps(PASSWORD, ensure_ascii=False),
    "Python": repr(PASSWORD),
    "JAAS": jaas(PASSWORD),
    "JAAS in JSON": json.dumps({"sasl.jaas.config": f'x password="{jaas(PASSWORD)}";'}),
    "Python in Python": repr(repr({"password": PASSWORD})),
    "JAAS in a URL": quote_plus(jaas(PASSWORD)),
    "HTTP": base64.b64encode(PASSWORD.encode()).decode(),
    "URL": quote_plus(PASSWORD),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_replaced_in_each_form(form: str) -> None:
    text = Scrubber([PASSWORD]).text(f"login failed for {FORMS[form]} at broker 1")
    assert "vQ9sd7Lq" not in text and "plain-Xk3" not in text
    assert text.startswith("login failed for ") and text.endswith(" at broker 1") and HIDDEN in text


def test_the_header_with_a_secret_of_tokens_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IT", PASSWORD)
    fields = {"protocol": "SASL_SSL", "mechanism": "OAUTHBEARER", "username": "u", "password": "env:IT"}
    access = Access.of(Security.model_validate({**fields, "token_endpoint": "http://h/token"}))
    assert access is not None
    header = base64.b64encode(f"u:{PASSWORD}".encode()).decode()
    assert access.scrubber.text(f"> Authorization: Basic {header}") == f"> Authorization: Basic {HIDDEN}"


def test_the_rest_of_an_output_stays_byte_by_byte() -> None:
    line = b"\xff\xfe not UTF-8, abc and \xc3\xa9\n"
    assert Scrubber(["abc", PASSWORD]).raw(line) == line, "three characters are a word, not a secret"
    assert not Scrubber() and Scrubber().text(PASSWORD) == PASSWORD


def test_the_log_of_a_process_never_has_the_secret(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "r")
    log = tmp_path / "client.log"
    program = "import os, sys; sys.stderr.write(os.environ['IT'] + ' is wrong\\n' + 'x' * 100_000); sys.exit(3)"
    child = spawn(
        [sys.executable, "-c", program],
        run=run,
        role="r",
        owner=ProcessId.current(),
        log=log,
        stdout=subprocess.PIPE,
        env={"IT": PASSWORD},
        scrubber=Scrubber([PASSWORD]),
    )
    assert child.wait() == 3
    kept = log.read_text()
    assert "is wrong" in kept and kept.endswith("x" * 100_000)
    assert all(line not in kept for line in PASSWORD.splitlines())


@pytest.mark.parametrize("written", [f"{PASSWORD}\n", f"{PASSWORD}\r\n", PASSWORD, f" {PASSWORD} \n"])
def test_only_the_last_line_end_of_a_file_is_no_part_of_its_secret(tmp_path: Path, written: str) -> None:
    (tmp_path / "p").write_bytes(written.encode())
    security = Security(protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="u", password=f"file:{tmp_path / 'p'}")
    access = Access.of(security)
    assert access is not None and access.password == written.rstrip("\r\n")


def test_a_file_with_a_line_end_alone_is_empty(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("\n")
    security = Security(protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="u", password=f"file:{tmp_path / 'p'}")
    with pytest.raises(UsageError, match="is empty"):
        Access.of(security)


def test_a_new_password_has_the_characters_that_programs_get_wrong() -> None:
    password = new_password()
    assert all(c in password for c in "\n$'\"\\ \u00e9\u20ac;,=") and password != new_password()
    assert password == password.strip(), "the Java client trims the secret of a client of OAuth"
