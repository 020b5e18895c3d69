/* A name, as tokenizer.ggml.pre has it, of every way to split a text that is known. */
#ifndef GQ_TEST_PRETOKENIZER_NAMES_H
#define GQ_TEST_PRETOKENIZER_NAMES_H

static const char *const pretokenizer_names[] = {"gpt-2",
                                                 "llama-bpe",
                                                 "qwen2",
                                                 "qwen35",
                                                 "starcoder",
                                                 "tekken",
                                                 "gpt-4o",
                                                 "tiny_aya",
                                                 "youtu",
                                                 "deepseek-llm",
                                                 "deepseek-coder",
                                                 "deepseek-v3",
                                                 "spark2_5",
                                                 "falcon",
                                                 "default",
                                                 "kimi-k2",
                                                 "seed-coder",
                                                 "bailingmoe",
                                                 "exaone-moe",
                                                 "minicpm5",
                                                 "laguna",
                                                 "ufakzeka",
                                                 "jais-2",
                                                 "bloom",
                                                 "viking",
                                                 "superbpe",
                                                 "afmoe",
                                                 "chameleon",
                                                 "granite-embed-multi-97m"};

#endif
