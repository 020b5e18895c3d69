// encode_texts.mjs DIR FOLDER TEXTS: ids of the files of TEXTS, without BOS and EOS, by @huggingface/tokenizers, which is installed in DIR,
// as the tokenizer.json of FOLDER has it. A line per file: its name, a tab, the ids. For tests/peer/hf_real_tokenizers.
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";

const [modules, folder, texts] = process.argv.slice(2);
const { Tokenizer } = createRequire(`${modules}/`)("@huggingface/tokenizers");
const read = (name) => JSON.parse(readFileSync(`${folder}/${name}`, "utf8"));
const tokenizer = new Tokenizer(read("tokenizer.json"), read("tokenizer_config.json"));
for (const name of readdirSync(texts).sort()) {
    const { ids } = tokenizer.encode(readFileSync(`${texts}/${name}`, "utf8"), { add_special_tokens: false });
    console.log(`${name}\t${ids.join(" ")}`);
}
