"""Conversations as text and ids: against what transformers made of the same templates (tests/peer/make_chat_golden)."""

import json
import pathlib

import pytest

import gquant

pytest.importorskip("jinja2", minversion="3.1.6")
from gquant import chat  # noqa: E402

GOLDEN = json.loads((pathlib.Path(__file__).parent / "chats.json").read_text(encoding="utf-8"))


def rendered(template, of):
    row = chat.conversation_of(GOLDEN["chats"][of])
    return chat.Template(GOLDEN["templates"][template], GOLDEN["specials"]).render(row.messages, **row.more)


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: f"{case['template']}-{case['chat']}")
def test_texts_and_marks_are_those_of_transformers(case):
    found = rendered(case["template"], case["chat"])
    assert found.text == case["text"]
    if case["spans"]:
        assert [list(span) for span in found.spans] == case["spans"]


@pytest.mark.parametrize("of", ["turns", "letters", "tools"])
def test_derived_marks_are_those_that_a_template_would_make(of):
    plain, marked = rendered("plain", of), rendered("marked", of)
    assert plain.text == marked.text and plain.spans == marked.spans


def test_turns_that_are_rendered_otherwise_when_they_are_last():
    found = rendered("thinking", "turns")
    said = [found.text[begin:end] for begin, end in found.spans]
    assert said == ["Hello!<|im_end|>", "<think>\nTwo and two.\n</think>\n\nIt is 4.<|im_end|>"]


def test_forms_of_conversations():
    share = {"system": "Be brief.", "conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}
    assert [m["role"] for m in chat.conversation_of(share).messages] == ["system", "user", "assistant"]
    prompt = {"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}]}
    assert len(chat.conversation_of(prompt).messages) == 2
    assert chat.conversation_of({"prompt": "a", "completion": "b"}).plain == ("a", "b")
    for wrong in ([], {"text": "a"}, {"messages": []}, {"conversations": [{"from": "nobody", "value": "a"}]}):
        with pytest.raises(chat.ChatError):
            chat.conversation_of(wrong)


def write_folder(folder, template):
    """A GGUF whose tokens are letters, with a template of theirs."""
    letters = [chr(c) for c in range(33, 127)] + ["Ġ", "Ċ"]
    with gquant.GGUFBuilder() as d:
        d["general.architecture"] = "llama"
        d["tokenizer.ggml.model"], d["tokenizer.ggml.pre"] = "gpt2", "gpt-2"
        d["tokenizer.ggml.tokens"] = [*letters, "<|end|>"]
        d.set("tokenizer.ggml.token_type", [1] * len(letters) + [3], "i32")
        d.set("tokenizer.ggml.merges", [], "string")
        d.set("tokenizer.ggml.eos_token_id", len(letters), "u32")
        d["tokenizer.chat_template"] = template
        d.write(folder)
    return letters


def test_ids_and_weights(tmp_path, capsys):
    model, chats, out = (tmp_path / name for name in ("model.gguf", "chats.jsonl", "chats.ids"))
    letters = write_folder(model, "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}{{ eos_token }}{% endfor %}")
    rows = [{"messages": [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "cd"}]}, {"prompt": "ab", "completion": "cd"}]
    chats.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    assert chat.main([str(model), str(chats), str(out), "--others", "0.25"]) == 0
    ids = {letter: i for i, letter in enumerate(letters)}
    end = len(letters)
    u, a = [ids[c] for c in "u:aĠb"], [ids[c] for c in "a:"]
    expected = [chat.MAGIC, " ".join(map(str, ["=0.25", *u, end, *a, "=1", ids["c"], ids["d"], end])),
                " ".join(map(str, ["=0.25", ids["a"], ids["b"], "=1", ids["c"], ids["d"]]))]
    assert out.read_text().splitlines() == expected
    assert "2 conversations" in capsys.readouterr().out
    assert chat.main([str(model), str(chats), str(out)]) == 1
    assert "--force" in capsys.readouterr().err
    chats.write_text('{"messages": [{"role": "user"')
    assert chat.main([str(model), str(chats), str(out), "-f"]) == 1
    assert "line 1: is not valid JSON" in capsys.readouterr().err
    assert out.read_text().splitlines() == expected and sorted(p.name for p in tmp_path.iterdir()) == ["chats.ids", "chats.jsonl", "model.gguf"]


def test_templates_that_refuse(tmp_path, capsys):
    model, chats, out = (tmp_path / name for name in ("model.gguf", "chats.jsonl", "chats.ids"))
    write_folder(model, "{% if messages[0].role != 'user' %}{{ raise_exception('users begin') }}{% endif %}"
                        "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}")
    good, bad = ({"messages": [{"role": role, "content": "a"}, {"role": "assistant", "content": "b"}]} for role in ("user", "system"))
    chats.write_text(f"{json.dumps(good)}\n{json.dumps(bad)}\n")
    assert chat.main([str(model), str(chats), str(out)]) == 1
    assert "line 2: users begin" in capsys.readouterr().err and not out.exists()
    assert chat.main([str(model), str(chats), str(out), "--skip"]) == 0
    assert "left out: users begin" in capsys.readouterr().err
    with pytest.raises(chat.ChatError, match="has no chat template"):
        chat.Templates(tmp_path)(None)
