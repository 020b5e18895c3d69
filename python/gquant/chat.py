"""Renders conversations by a model's own chat template, as transformers does, and writes ids with a weight per token.

    gquant-chat Qwen3-8B chats.jsonl chats.ids
    gquant --calibrate-ids chats.ids model-F16.gguf model-Q4_K_M.gguf Q4_K_M
    gquant evaluate model-F16.gguf model-Q4_K_M.gguf --ids chats.ids

A line of chats.jsonl is a conversation: {"messages": [...], "tools": [...]} as OpenAI has it, {"conversations":
[{"from": "human", "value": ...}, ...]} as ShareGPT has it, or {"prompt": ..., "completion": ...}. What the assistant
wrote has the weight 1, all else that of --others. docs/formats.md describes the file of ids.

Templates run in jinja2's sandbox with the extensions that transformers gives them: they are code of the model's author.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import sys
import unicodedata
from typing import Any, Iterator, Optional

from ._library import Error
from .models import Model, Path, Tokenizer

MAGIC = "#gquant-chats 1"
SPECIALS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "model": "assistant", "chatgpt": "assistant",
         "bing": "assistant", "system": "system", "tool": "tool", "observation": "tool", "function": "tool"}
REASONING = ("reasoning_content", "thinking", "reasoning")


class ChatError(Error):
    """A conversation or template that cannot be used. The message names the file and the line."""


class NoTemplate(ChatError):
    """A model has no chat template."""


@dataclasses.dataclass(frozen=True)
class Rendered:
    """A conversation as text. spans: where the assistant's words begin and end in it, in characters."""

    text: str
    spans: tuple[tuple[int, int], ...]


# ---- templates ----


def _environment() -> Any:
    """The environment that transformers compiles templates in."""
    try:
        import jinja2
        import jinja2.ext
        import jinja2.sandbox
    except ImportError:
        raise ChatError("templates need the Python package jinja2: pip install 'jinja2>=3.1.6'") from None
    if tuple(int(n) for n in jinja2.__version__.split(".")[:3] if n.isdigit()) < (3, 1, 6):  # templates got out of older sandboxes
        raise ChatError(f"templates need jinja2 3.1.6 or later, here is {jinja2.__version__}: pip install -U jinja2")

    class Generation(jinja2.ext.Extension):
        """{% generation %} ... {% endgeneration %}: what the assistant wrote. Where it stands goes to `found`."""

        tags = {"generation"}

        def __init__(self, environment: Any) -> None:
            super().__init__(environment)
            environment.extend(generation=self)
            self.blocks: Optional[list[str]] = None
            self.found: list[tuple[int, int]] = []

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_note", []), [], [], body).set_lineno(line)

        def _note(self, caller: Any) -> str:
            text = str(caller())
            if self.blocks is not None:
                begin = sum(map(len, self.blocks))
                self.found.append((begin, begin + len(text)))
            return text

    def fail(message: str) -> None:
        raise jinja2.exceptions.TemplateError(message)

    def to_json(x: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = fail
    environment.globals["strftime_now"] = lambda format: datetime.datetime.now().strftime(format)
    return environment


class Template:
    """The chat template of a model, by jinja2.

    source: its text. specials: names of special tokens and their texts, which templates may use.
    Raises ChatError where it is no template, or jinja2 is missing.
    """

    def __init__(self, source: str, specials: Optional[dict[str, str]] = None) -> None:
        self._environment = _environment()
        self.source, self.specials = source, dict(specials or {})
        try:
            self._template = self._environment.from_string(source)
        except Exception as error:
            raise ChatError(f"the chat template cannot be read: {error}") from error
        self.marks_itself = "{% generation" in source or "{%- generation" in source

    def text(self, messages: list[Any], *, prompt: bool = False, **more: Any) -> str:
        """Return the text of a conversation. prompt: with what makes the assistant begin. more: tools and other variables."""
        return "".join(self._template.generate(**self._variables(messages, prompt, more)))

    def render(self, messages: list[Any], **more: Any) -> Rendered:
        """Return the text with the places of the assistant's words: those of {% generation %}, or derived ones."""
        if not self.marks_itself:
            return _derived(self, messages, more)
        extension = self._environment.generation
        extension.blocks, extension.found = [], []
        try:
            for block in self._template.generate(**self._variables(messages, False, more)):
                extension.blocks.append(block)
            return Rendered("".join(extension.blocks), tuple(extension.found))
        finally:
            extension.blocks = None

    def _variables(self, messages: list[Any], prompt: bool, more: dict[str, Any]) -> dict[str, Any]:
        return {**self.specials, "tools": None, "documents": None, **more,
                "messages": messages, "add_generation_prompt": prompt}


def _shared(a: str, b: str) -> int:
    """Return how many characters both begin with."""
    return len(os.path.commonprefix((a, b)))


def _derived(template: Template, messages: list[Any], more: dict[str, Any]) -> Rendered:
    """Find the assistant's words in a text whose template does not mark them.

    A turn begins where the text of all before it, with what makes the assistant begin, ends, if the template adds any such; and
    it ends where the text up to
    it ends, but for white space. Where one of these is no beginning of the whole text, since the template renders the last turn
    otherwise than earlier ones, the turn is what changes when other words stand in its place, with the special token behind it.
    """
    text = template.text(messages, **more)
    spans: list[tuple[int, int]] = []
    for i, message in enumerate(messages):
        if message.get("role") != "assistant":
            continue
        before = _try(template, messages[:i], True, more)
        until = _try(template, messages[:i + 1], False, more)
        changed = _changed(template, messages, i, more, text)
        begin, end = changed or (len(text), len(text))
        makes_begin = before != _try(template, messages[:i], False, more)  # not all templates do, without a message at all
        if before is not None and text.startswith(before) and (not changed or (makes_begin and len(before) <= changed[0])):
            begin = len(before)
        if until is not None and text.startswith(until) and len(until) >= (changed[1] if changed else begin):
            end = len(until.rstrip())
        elif changed:
            end = _with_special(template, text, end)
        if spans and begin < spans[-1][1]:
            begin = spans[-1][1]
        if begin < end:
            spans.append((begin, end))
    return Rendered(text, tuple(spans))


def _try(template: Template, messages: list[Any], prompt: bool, more: dict[str, Any]) -> Optional[str]:
    """A text that a template may refuse, such as one of no message, or one that ends with a call of a tool."""
    with contextlib.suppress(Exception):
        if messages:
            return template.text(messages, prompt=prompt, **more)
    return None


_OTHERS = ("\u2042one", "\u2021two")


def _changed(template: Template, messages: list[Any], i: int, more: dict[str, Any], text: str) -> Optional[tuple[int, int]]:
    """Where the text changes when the words of a message do: by two other contents, so that no letter is shared by chance."""
    content = messages[i].get("content")
    if not isinstance(content, str) or not content:
        return None
    begin, end = len(text), 0
    for other in _OTHERS:
        with contextlib.suppress(Exception):
            changed = template.text([*messages[:i], {**messages[i], "content": other}, *messages[i + 1:]], **more)
            begin = min(begin, _shared(text, changed))
            end = max(end, len(text) - _shared(text[begin:][::-1], changed[begin:][::-1]))
    return (begin, end) if begin < end else None


def _with_special(template: Template, text: str, end: int) -> int:
    """The end behind the special token that ends the turn, if one is next."""
    rest = text[end:]
    for token in sorted(set(template.specials.values()), key=len, reverse=True):
        if token and rest.startswith(token):
            return end + len(token)
    return end


def _read_json(path: pathlib.Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _choose(named: Any, has_tools: bool) -> Optional[str]:
    """A model may have several templates by name: that for tools where a conversation has some, else the default one."""
    if isinstance(named, list):
        named = {item["name"]: item["template"] for item in named}
    if isinstance(named, dict):
        return named.get("tool_use" if has_tools and "tool_use" in named else "default")
    return named


def _text_of(token: Any) -> Optional[str]:
    return token.get("content") if isinstance(token, dict) else token


class Templates:
    """The chat templates of a model: a folder from Hugging Face, or a GGUF file."""

    def __init__(self, path: Path) -> None:
        self.path = os.fspath(path)
        folder = pathlib.Path(self.path)
        if folder.is_dir():
            self._named, self.specials = self._of_folder(folder)
        else:
            self._named, self.specials = self._of_file()
        self._made: dict[bool, Template] = {}

    def __call__(self, tools: Any) -> Template:
        """Return the template for conversations with tools, or without. Raises ChatError where there is none."""
        has_tools = bool(tools)
        if has_tools not in self._made:
            source = _choose(self._named, has_tools)
            if not source:
                raise NoTemplate(f"{self.path}: has no chat template; name one with --template FILE")
            self._made[has_tools] = Template(source, self.specials)
        return self._made[has_tools]

    @staticmethod
    def _of_folder(folder: pathlib.Path) -> tuple[Any, dict[str, str]]:
        config, named = _read_json(folder / "tokenizer_config.json"), None
        more = _read_json(folder / "special_tokens_map.json")
        if (folder / "chat_template.jinja").exists():
            named = {"default": (folder / "chat_template.jinja").read_text(encoding="utf-8")}
            for extra in sorted((folder / "additional_chat_templates").glob("*.jinja")):
                named[extra.stem] = extra.read_text(encoding="utf-8")
        named = named or _read_json(folder / "chat_template.json").get("chat_template") or config.get("chat_template")
        found = {name: _text_of(config.get(name, more.get(name))) for name in SPECIALS}
        return named, {name: token for name, token in found.items() if isinstance(token, str)}

    def _of_file(self) -> tuple[Any, dict[str, str]]:
        with Model(self.path) as model:
            metadata = model.metadata
            key, tokens = "tokenizer.chat_template", metadata.get("tokenizer.ggml.tokens", [])
            named = {"default": metadata.get(key)}
            named.update({k[len(key) + 1:]: metadata[k] for k in metadata if k.startswith(key + ".")})
            names = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "sep_token": "seperator",
                     "pad_token": "padding", "cls_token": "cls", "mask_token": "mask"}
            ids = {name: metadata.get(f"tokenizer.ggml.{k}_token_id") for name, k in names.items()}
            return named, {name: str(tokens[i]) for name, i in ids.items() if i is not None and i < len(tokens)}


# ---- conversations ----


def _messages_of_sharegpt(row: dict[str, Any]) -> list[dict[str, Any]]:
    messages = [{"role": "system", "content": row["system"]}] if row.get("system") else []
    for turn in row["conversations"]:
        source = turn.get("from", turn.get("role"))
        if source not in ROLES:
            raise ChatError(f'a turn is from "{source}", expected human, gpt, system or tool')
        messages.append({"role": ROLES[source], "content": turn.get("value", turn.get("content"))})
    return messages


def _named_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    """A message without what is null, and with its reasoning under both names that templates read, as in transformers."""
    message = {key: value for key, value in message.items() if value is not None}
    reasoning = next((message[key] for key in REASONING if key in message), None)
    return message if reasoning is None else {"thinking": reasoning, **message, "reasoning_content": reasoning}


@dataclasses.dataclass(frozen=True)
class Conversation:
    """A line of a file of conversations. messages: as OpenAI has them, or a text and what follows it, without a template."""

    messages: list[dict[str, Any]]
    plain: Optional[tuple[str, str]]
    more: dict[str, Any]


def conversation_of(row: Any) -> Conversation:
    """Read one conversation of any of the three forms. Raises ChatError for what is none of them."""
    if not isinstance(row, dict):
        raise ChatError("is no object; expected one with messages, conversations, or prompt and completion")
    more = dict(row.get("chat_template_kwargs") or {})
    for key in ("tools", "documents"):
        value = row.get(key)
        if value:
            more[key] = json.loads(value) if isinstance(value, str) else value
    if isinstance(row.get("prompt"), str) and isinstance(row.get("completion"), str):
        return Conversation([], (row["prompt"], row["completion"]), {})
    if isinstance(row.get("prompt"), list):
        messages = [*row["prompt"], *(row.get("completion") or [])]
    elif "messages" in row:
        messages = row["messages"]
    elif "conversations" in row:
        messages = _messages_of_sharegpt(row)
    else:
        raise ChatError("has neither messages nor conversations, nor prompt and completion")
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
        raise ChatError("has no messages")
    return Conversation([_named_reasoning(m) for m in messages], None, more)


def conversations(path: Path) -> Iterator[tuple[int, Any]]:
    """The lines of a file with their numbers, as JSON. Empty lines are left out."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield number, json.loads(line)
                except ValueError as error:
                    raise ChatError(f"{os.fspath(path)}, line {number}: is not valid JSON: {error}") from error


# ---- ids and weights ----


class Encoder:
    """The tokenizer of a model, with the normal form of letters that its tokenizer.json asks for; GGUF files tell none."""

    def __init__(self, path: Path) -> None:
        self._tokenizer = Tokenizer(path)
        file = pathlib.Path(os.fspath(path)) / "tokenizer.json"
        self._forms = _forms_of(_read_json(file).get("normalizer")) if file.is_file() else []

    def __call__(self, text: str, **how: Any) -> list[int]:
        for form in self._forms:
            text = unicodedata.normalize(form, text)
        return [int(i) for i in self._tokenizer(text, **how)]

    def close(self) -> None:
        self._tokenizer.close()


def _forms_of(normalizer: Any) -> list[Any]:
    kind = (normalizer or {}).get("type")
    if kind == "Sequence":
        return [form for step in normalizer.get("normalizers", []) for form in _forms_of(step)]
    return [kind] if kind in ("NFC", "NFD", "NFKC", "NFKD") else []


def _index(tokenizer: Encoder, ids: list[int], prefix: str) -> tuple[int, bool]:
    """The number of tokens that lie wholly in a prefix of the text, and whether the prefix ends with the last of them."""
    own = tokenizer(prefix, ends=False, special=True)
    same = next((k for k, (a, b) in enumerate(zip(own, ids)) if a != b), min(len(own), len(ids)))
    return same, same == len(own)


def ids_of(tokenizer: Encoder, rendered: Rendered) -> tuple[list[int], list[bool]]:
    """Return the ids of a rendered conversation, and for each whether a letter of it is the assistant's."""
    ids = tokenizer(rendered.text, ends=False, special=True)
    own = [False] * len(ids)
    for begin, end in rendered.spans:
        if begin >= end:
            continue
        first, _ = _index(tokenizer, ids, rendered.text[:begin])
        last, whole = _index(tokenizer, ids, rendered.text[:end])
        for i in range(first, min(last + (not whole), len(ids))):
            own[i] = True
    return ids, own


def _plain_ids(tokenizer: Encoder, prompt: str, completion: str) -> tuple[list[int], list[bool]]:
    """A text and its continuation, which begin as the vocabulary has texts begin. Control tokens in them are text."""
    ids, own = tokenizer(prompt + completion), tokenizer(prompt)
    same = next((k for k, (a, b) in enumerate(zip(own, ids)) if a != b), min(len(own), len(ids)))
    return ids, [i >= same for i in range(len(ids))]


def line_of(ids: list[int], own: list[bool], others: float) -> str:
    """A conversation as a line of the file: ids, and before a run of them their weight where it changes from 1."""
    words, weight = [], 1.0
    for i, is_own in zip(ids, own):
        wanted = 1.0 if is_own else others
        if wanted != weight:
            words.append("=" + f"{wanted:.6f}".rstrip("0").rstrip("."))
            weight = wanted
        words.append(str(i))
    return " ".join(words)


def render_file(model: Path, chats: Path, *, template: Optional[str] = None, skip: bool = False) -> Iterator[tuple[list[int], list[bool]]]:
    """Yield ids and marks of each conversation of a file.

    model: a folder or GGUF file with tokenizer and template. template: another one's text.
    skip: leave out conversations that the template refuses. Raises ChatError, which names the line, for those else.
    """
    templates = Templates(model)
    made = Template(template, templates.specials) if template is not None else None
    with contextlib.closing(Encoder(model)) as tokenizer:
        for number, row in conversations(chats):
            try:
                chat = conversation_of(row)
                if chat.plain:
                    yield _plain_ids(tokenizer, *chat.plain)
                    continue
                rendered = (made or templates(chat.more.get("tools"))).render(chat.messages, **chat.more)
            except Exception as error:
                if skip and not isinstance(error, NoTemplate):
                    print(f"gquant-chat: {os.fspath(chats)}, line {number}: left out: {error}", file=sys.stderr)
                    continue
                raise ChatError(f"{os.fspath(chats)}, line {number}: {error}") from error
            yield ids_of(tokenizer, rendered)


def write_chats(model: Path, chats: Path, out: Path, *, others: float = 0.0, template: Optional[str] = None, skip: bool = False,
                force: bool = False) -> dict[str, int]:
    """Write the file of ids of a file of conversations. Return counts: conversations, tokens, and tokens of the assistant.

    others: the weight of tokens that are not the assistant's, 0 to 1. force: replace a file that is there.
    Raises ChatError where a conversation or the template cannot be used, FileExistsError without force.
    """
    if not 0 <= others <= 1:
        raise ChatError(f"the weight of others is {others}, expected 0 to 1")
    if os.path.exists(out) and not force:
        raise FileExistsError(f"{os.fspath(out)}: already exists; --force replaces it")
    counts = {"conversations": 0, "tokens": 0, "assistant": 0}
    beside = f"{os.fspath(out)}.unfinished-{os.getpid()}"
    try:
        with open(beside, "w", encoding="ascii") as file:
            file.write(MAGIC + "\n")
            for ids, own in render_file(model, chats, template=template, skip=skip):
                file.write(line_of(ids, own, others) + "\n")
                counts["conversations"] += 1
                counts["tokens"] += len(ids)
                counts["assistant"] += sum(own)
            file.flush()
            os.fsync(file.fileno())
        if not counts["assistant"]:
            raise ChatError(f"{os.fspath(chats)}: no conversation has words of the assistant")
        os.replace(beside, out)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(beside)
    return counts


def main(arguments: Optional[list[str]] = None) -> int:
    """The command gquant-chat."""
    parser = argparse.ArgumentParser(
        prog="gquant-chat", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Render conversations by a model's chat template, and write ids with a weight per token for gquant's\n"
                    "--ids and --calibrate-ids.",
        epilog="A line of CHATS is {\"messages\": [...], \"tools\": [...]}, {\"conversations\": [{\"from\", \"value\"}, ...]},\n"
               "or {\"prompt\", \"completion\"}, which no template changes. example:\n"
               "  gquant-chat Qwen3-8B chats.jsonl chats.ids\n"
               "  gquant evaluate Qwen3-8B-F16.gguf Qwen3-8B-Q4_K_M.gguf --ids chats.ids")
    parser.add_argument("model", metavar="FOLDER|GGUF", help="model whose tokenizer and template are used")
    parser.add_argument("chats", metavar="CHATS.jsonl", help="conversations, one a line")
    parser.add_argument("out", metavar="OUT", help="file of ids to write")
    parser.add_argument("--others", metavar="SHARE", type=float, default=0.0,
                        help="0 to 1: weight of tokens that are not the assistant's; default: 0")
    parser.add_argument("--template", metavar="FILE", help="a template in place of the model's own")
    parser.add_argument("--skip", action="store_true", help="leave out conversations that the template refuses")
    parser.add_argument("-f", "--force", action="store_true", help="replace OUT if it is there")
    given = parser.parse_args(arguments)
    try:
        template = pathlib.Path(given.template).read_text(encoding="utf-8") if given.template else None
        counts = write_chats(given.model, given.chats, given.out, others=given.others, template=template, skip=given.skip,
                             force=given.force)
    except (Error, OSError, UnicodeError) as error:
        print(f"gquant-chat: {error}", file=sys.stderr)
        return 1
    print(f"{given.out}: {counts['conversations']} conversations, {counts['tokens']} tokens, "
          f"{counts['assistant']} of them the assistant's")
    return 0


if __name__ == "__main__":
    sys.exit(main())
