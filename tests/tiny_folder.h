/* A Hugging Face folder written on the spot: a small llama, or a mixtral. */
#ifndef GQ_TEST_TINY_FOLDER_H
#define GQ_TEST_TINY_FOLDER_H

extern const char TINY_TOKENIZER[];

/* Writes config.json, tokenizer.json and model.safetensors in BF16 into a folder that is made if it is not
 * there. experts 0: a dense model. `seed` decides the weights. */
void tiny_folder_write(const char *folder, int layers, int experts, unsigned seed);
/* Replaces a file of the folder by a text. */
void tiny_folder_text(const char *folder, const char *name, const char *text);

#endif
