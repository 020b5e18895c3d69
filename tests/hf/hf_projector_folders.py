#!/usr/bin/env python3
"""hf_projector_folders.py SHARED DIR [NAME...]: writes small random folders of models that see or hear, for their projectors

At least one for each row of arch/projectors*.c, with the arrays of the projector, some of the text model, and config.json with the keys
that published models of the class have, and small sizes. tests/golden/projectors has what llama.cpp's converter makes of the folders
with --mmproj (tests/hf/make_projector_golden).
"""
import json
import pathlib
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "../shared")
sys.path.insert(0, str(ROOT / "models"))
from make_hf import Folder, write  # noqa: E402

FOLDERS = {}
MEAN, STD = [0.5, 0.5, 0.5], [0.5, 0.5, 0.5]
CLIP = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}


def folder(make):
    FOLDERS[make.__name__.replace("_", "-").replace("-dot-", ".")] = make
    return make


def add(f, prefix, names, *shape, **other):
    """Arrays of one shape; names with blanks between them"""
    for name in names.split():
        f.add(prefix + name, *shape, **other)


def lins(f, prefix, names, out, width, bias=True):
    for name in names.split():
        f.lin(prefix + name, out, width, bias)


def norms(f, prefix, names, width, bias=True):
    for name in names.split():
        f.norm(prefix + name, width, bias=bias)


def clip_layers(f, p, width, inner, n):
    """SigLIP's and CLIP's layers under p + encoder.layers"""
    for i in range(n):
        b = f"{p}encoder.layers.{i}."
        lins(f, b + "self_attn.", "q_proj k_proj v_proj out_proj", width, width)
        norms(f, b, "layer_norm1 layer_norm2", width)
        f.lin(b + "mlp.fc1", inner, width, True), f.lin(b + "mlp.fc2", width, inner, True)


def siglip(f, p, width, inner, n, patch, positions, post=True):
    f.add(p + "embeddings.patch_embedding.weight", width, 3, patch, patch), f.add(p + "embeddings.patch_embedding.bias", width)
    f.add(p + "embeddings.position_embedding.weight", positions, width)
    clip_layers(f, p, width, inner, n)
    if post:
        f.norm(p + "post_layernorm", width, bias=True)


def text_arrays(f, p="language_model.model.", width=64):
    """Some arrays of the text model, which a projector has no use for"""
    f.add(p + "embed_tokens.weight", 40, width), f.lin(p + "layers.0.self_attn.q_proj", width, width), f.norm(p + "norm", width)


def pre(f, **keys):
    write(f.path, "preprocessor_config.json", keys)


@folder
def gemma3(f):
    siglip(f, "vision_tower.vision_model.", 64, 96, 2, 14, 16)
    f.add("multi_modal_projector.mm_input_projection_weight", 64, 128), f.norm("multi_modal_projector.mm_soft_emb_norm", 64, around=0.0)
    text_arrays(f, width=128)
    pre(f, do_convert_rgb=None, do_normalize=True, image_mean=MEAN, image_std=STD, image_processor_type="Gemma3ImageProcessor",
        image_seq_length=256, size={"height": 896, "width": 896})
    f.finish({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "mm_tokens_per_image": 256,
              "text_config": {"hidden_size": 128, "intermediate_size": 256, "model_type": "gemma3_text", "num_attention_heads": 4,
                              "num_hidden_layers": 1, "num_key_value_heads": 2, "sliding_window": 1024},
              "vision_config": {"hidden_size": 64, "image_size": 896, "intermediate_size": 96, "model_type": "siglip_vision_model",
                                "num_attention_heads": 4, "num_hidden_layers": 2, "patch_size": 14, "vision_use_head": False}})


def qwen_text(model_type, **other):
    return {"hidden_size": 128, "intermediate_size": 256, "model_type": model_type, "num_attention_heads": 4, "num_hidden_layers": 1,
            "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "vocab_size": 40, **other}


def qwen_pre(f, patch=14, **other):
    pre(f, **CLIP, min_pixels=3136, max_pixels=12845056, patch_size=patch, temporal_patch_size=2, merge_size=2,
        image_processor_type="Qwen2VLImageProcessor", **other)


def visual(f, p, width, n, patch, mlp, merger):
    """Qwen's layers; mlp: names, output and input sizes of the feed-forward part; merger: the same of what is behind"""
    f.add(p + "patch_embed.proj.weight", width, 3, 2, patch, patch)
    for i in range(n):
        b = f"{p}blocks.{i}."
        f.lin(b + "attn.qkv", 3 * width, width, True), f.lin(b + "attn.proj", width, width, True)
        for name, out, inp in mlp:
            f.lin(b + "mlp." + name, out, inp, True)
    for name, out, inp in merger:
        f.lin(p + "merger." + name, out, inp, True)


@folder
def qwen2vl(f, D=64):
    visual(f, "visual.", D, 4, 14, (("fc1", 256, D), ("fc2", D, 256)), (("mlp.0", 256, 256), ("mlp.2", 128, 256)))
    for i in range(4):
        norms(f, f"visual.blocks.{i}.", "norm1 norm2", D)
    f.norm("visual.merger.ln_q", D, bias=True)
    text_arrays(f, "model.", 128)
    qwen_pre(f)
    f.finish({"architectures": ["Qwen2VLForConditionalGeneration"], **qwen_text("qwen2_vl"), "max_position_embeddings": 32768,
              "rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]}, "vision_start_token_id": 30, "vision_end_token_id": 31,
              "vision_config": {"depth": 4, "embed_dim": D, "mlp_ratio": 4, "num_heads": 4, "in_chans": 3, "hidden_size": 128,
                                "patch_size": 14, "spatial_merge_size": 2, "spatial_patch_size": 14, "temporal_patch_size": 2}})


@folder
def qwen2_dot_5vl(f, D=64):
    mlp = (("gate_proj", 96, D), ("up_proj", 96, D), ("down_proj", D, 96))
    visual(f, "visual.", D, 4, 14, mlp, (("mlp.0", 256, 256), ("mlp.2", 128, 256)))
    for i in range(4):
        norms(f, f"visual.blocks.{i}.", "norm1 norm2", D, bias=False)
    f.norm("visual.merger.ln_q", D)
    text_arrays(f, "model.", 128)
    qwen_pre(f)
    f.finish({"architectures": ["Qwen2_5_VLForConditionalGeneration"], **qwen_text("qwen2_5_vl"), "max_position_embeddings": 128000,
              "rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]},
              "vision_config": {"depth": 4, "hidden_act": "silu", "hidden_size": D, "intermediate_size": 96, "num_heads": 4, "in_chans": 3,
                                "out_hidden_size": 128, "patch_size": 14, "spatial_merge_size": 2, "spatial_patch_size": 14,
                                "window_size": 112, "fullatt_block_indexes": [1, 3], "tokens_per_second": 2, "temporal_patch_size": 2}})


def qwen3(f, name, model_type, text, deepstack, D=64):
    p = "model.visual."
    visual(f, p, D, 3, 16, (("linear_fc1", 96, D), ("linear_fc2", D, 96)), (("linear_fc1", 256, 256), ("linear_fc2", 128, 256)))
    f.add(p + "patch_embed.proj.bias", D), f.add(p + "pos_embed.weight", 64, D), f.norm(p + "merger.norm", D, bias=True)
    for i in range(3):
        norms(f, f"{p}blocks.{i}.", "norm1 norm2", D)
    for i in range(len(deepstack)):
        f.norm(f"{p}deepstack_merger_list.{i}.norm", 256, bias=True)
        f.lin(f"{p}deepstack_merger_list.{i}.linear_fc1", 256, 256, True), f.lin(f"{p}deepstack_merger_list.{i}.linear_fc2", 128, 256, True)
    text_arrays(f, "model.language_model.", 128), f.lin("lm_head", 40, 128), f.lin("mtp.fc", 128, 256)
    pre(f, image_mean=MEAN, image_std=STD, patch_size=16, temporal_patch_size=2, merge_size=2, size={"longest_edge": 16777216, "shortest_edge": 65536},
        image_processor_type="Qwen2VLImageProcessorFast")
    f.finish({"architectures": [name], "model_type": model_type, "tie_word_embeddings": False, "text_config": qwen_text(text),
              "vision_config": {"deepstack_visual_indexes": deepstack, "depth": 3, "hidden_act": "gelu_pytorch_tanh", "hidden_size": D,
                                "in_channels": 3, "intermediate_size": 96, "model_type": model_type, "num_heads": 4,
                                "num_position_embeddings": 64, "out_hidden_size": 128, "patch_size": 16, "spatial_merge_size": 2,
                                "temporal_patch_size": 2}})


@folder
def qwen3vl(f):
    qwen3(f, "Qwen3VLForConditionalGeneration", "qwen3_vl", "qwen3_vl_text", [0, 2])


@folder
def qwen3_dot_5(f):
    qwen3(f, "Qwen3_5ForConditionalGeneration", "qwen3_5", "qwen3_5_text", [])


def pixtral_tower(f, p, width, inner, n, patch):
    f.add(p + "patch_conv.weight", width, 3, patch, patch), f.norm(p + "ln_pre", width)
    for i in range(n):
        b = f"{p}transformer.layers.{i}."
        lins(f, b + "attention.", "q_proj k_proj v_proj o_proj", width, width, False)
        lins(f, b + "feed_forward.", "gate_proj up_proj", inner, width, False), f.lin(b + "feed_forward.down_proj", width, inner)
        norms(f, b, "attention_norm ffn_norm", width, bias=False)


def mistral_text(**other):
    return {"head_dim": 32, "hidden_size": 128, "intermediate_size": 256, "model_type": "mistral", "num_attention_heads": 4, "num_hidden_layers": 1,
            "num_key_value_heads": 2, "rms_norm_eps": 1e-05, "vocab_size": 40, **other}


def pixtral_vision(**other):
    return {"head_dim": 16, "hidden_size": 64, "image_size": 1024, "intermediate_size": 96, "model_type": "pixtral", "num_attention_heads": 4,
            "num_channels": 3, "num_hidden_layers": 4, "patch_size": 16, "rope_theta": 10000.0, **other}


def pixtral_pre(f, **other):
    pre(f, **CLIP, image_processor_type="PixtralImageProcessor", patch_size={"height": 16, "width": 16}, size={"longest_edge": 1024}, **other)


@folder
def pixtral(f):
    pixtral_tower(f, "vision_tower.", 64, 96, 4, 16)
    f.lin("multi_modal_projector.linear_1", 128, 64, True), f.lin("multi_modal_projector.linear_2", 128, 128, True)
    text_arrays(f, width=128)
    pixtral_pre(f)
    write(f.path, "tokenizer_config.json", {"added_tokens_decoder": {"0": {"content": "<unk>"}, "12": {"content": "[IMG_BREAK]", "special": True}}})
    f.finish({"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava", "image_seq_length": 1, "image_token_index": 10,
              "projector_hidden_act": "gelu", "vision_feature_layer": -1, "vision_feature_select_strategy": "full",
              "text_config": mistral_text(), "vision_config": pixtral_vision(hidden_act="gelu")})


@folder
def mistral3(f):
    pixtral_tower(f, "vision_tower.", 64, 96, 4, 14)
    f.lin("multi_modal_projector.linear_1", 128, 64), f.lin("multi_modal_projector.linear_2", 128, 128)
    f.norm("multi_modal_projector.norm", 64), f.lin("multi_modal_projector.patch_merger.merging_layer", 64, 256)
    text_arrays(f, width=128)
    pixtral_pre(f, spatial_merge_size=2)
    write(f.path, "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizerFast"})
    write(f.path, "tokenizer.json", {"added_tokens": [{"id": 10, "content": "[IMG]"}, {"id": 12, "content": "[IMG_BREAK]"}]})
    f.finish({"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3", "image_token_index": 10, "spatial_merge_size": 2,
              "multimodal_projector_bias": False, "projector_hidden_act": "gelu", "vision_feature_layer": -1, "text_config": mistral_text(),
              "vision_config": pixtral_vision(hidden_act="silu", patch_size=14, image_size=1540)})


@folder
def lightonocr(f):
    pixtral_tower(f, "model.vision_encoder.", 64, 96, 4, 14)
    f.lin("model.vision_projection.linear_1", 128, 64), f.lin("model.vision_projection.linear_2", 128, 128)
    f.norm("model.vision_projection.norm", 64), f.lin("model.vision_projection.patch_merger.merging_layer", 64, 256)
    text_arrays(f, "model.language_model.", 128)
    pixtral_pre(f)
    f.finish({"architectures": ["LightOnOCRForConditionalGeneration"], "model_type": "mistral3", "spatial_merge_size": 2,
              "text_config": qwen_text("qwen3"), "vision_config": pixtral_vision(hidden_act="silu", patch_size=14, image_size=1540)})


@folder
def smolvlm(f):
    siglip(f, "model.vision_model.", 64, 96, 4, 16, 16)
    f.lin("model.connector.modality_projection.proj", 128, 256)
    text_arrays(f, "model.text_model.", 128), f.lin("lm_head", 40, 128)
    pre(f, image_mean=MEAN, image_std=STD, size={"longest_edge": 2048}, max_image_size={"longest_edge": 512}, image_processor_type="SmolVLMImageProcessor")
    f.finish({"architectures": ["SmolVLMForConditionalGeneration"], "model_type": "smolvlm", "scale_factor": 4, "image_token_id": 10,
              "text_config": {"hidden_size": 128, "intermediate_size": 256, "model_type": "llama", "num_attention_heads": 4, "num_hidden_layers": 1},
              "vision_config": {"hidden_size": 64, "image_size": 512, "intermediate_size": 96, "max_image_size": {"longest_edge": 512},
                                "model_type": "smolvlm_vision", "num_attention_heads": 4, "num_hidden_layers": 4, "patch_size": 16,
                                "size": {"longest_edge": 2048}}})


@folder
def internvl(f, D=64):
    p = "vision_model."
    f.add(p + "embeddings.class_embedding", 1, 1, D), f.add(p + "embeddings.position_embedding", 1, 17, D)
    f.add(p + "embeddings.patch_embedding.weight", D, 3, 14, 14), f.add(p + "embeddings.patch_embedding.bias", D)
    for i in range(4):
        b = f"{p}encoder.layers.{i}."
        f.lin(b + "attn.qkv", 3 * D, D, True), f.lin(b + "attn.proj", D, D, True), norms(f, b, "norm1 norm2", D)
        f.add(b + "ls1", D), f.add(b + "ls2", D), f.lin(b + "mlp.fc1", 96, D, True), f.lin(b + "mlp.fc2", D, 96, True)
    f.norm("mlp1.0", 256, bias=True), f.lin("mlp1.1", 128, 256, True), f.lin("mlp1.3", 128, 128, True)
    text_arrays(f, width=128)
    pre(f, image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225], crop_size=448, size=448)
    f.finish({"architectures": ["InternVLChatModel"], "model_type": "internvl_chat", "downsample_ratio": 0.5, "dynamic_image_size": True,
              "max_dynamic_patch": 12, "min_dynamic_patch": 1, "force_image_size": 448, "select_layer": -1, "template": "internvl2_5",
              "llm_config": qwen_text("qwen2", architectures=["Qwen2ForCausalLM"]),
              "vision_config": {"architectures": ["InternVisionModel"], "hidden_act": "gelu", "hidden_size": D, "image_size": 448,
                                "intermediate_size": 96, "layer_norm_eps": 1e-06, "model_type": "intern_vit_6b", "norm_type": "layer_norm",
                                "num_attention_heads": 4, "num_hidden_layers": 4, "patch_size": 14, "qk_normalization": False, "qkv_bias": True}})


@folder
def lfm2_vl(f, D=64):
    p = "model.vision_tower.vision_model."
    f.add(p + "embeddings.patch_embedding.weight", D, 768), f.add(p + "embeddings.patch_embedding.bias", D)
    f.add(p + "embeddings.position_embedding.weight", 16, D), clip_layers(f, p, D, 96, 4), f.norm(p + "post_layernorm", D, bias=True)
    f.norm("model.multi_modal_projector.layer_norm", 256, bias=True)
    f.lin("model.multi_modal_projector.linear_1", 128, 256, True), f.lin("model.multi_modal_projector.linear_2", 128, 128, True)
    text_arrays(f, "model.language_model.", 128)
    pre(f, image_mean=MEAN, image_std=STD, image_processor_type="Lfm2VlImageProcessorFast", downsample_factor=2, tile_size=512)
    f.finish({"architectures": ["Lfm2VlForConditionalGeneration"], "model_type": "lfm2-vl", "downsample_factor": 2, "vision_feature_layer": -1,
              "text_config": {"hidden_size": 128, "block_dim": 128, "model_type": "lfm2", "num_attention_heads": 4, "num_hidden_layers": 1,
                              "num_key_value_heads": 2, "layer_types": ["conv"]},
              "vision_config": {"hidden_size": D, "intermediate_size": 96, "layer_norm_eps": 1e-06, "model_type": "siglip2_vision_model",
                                "num_attention_heads": 4, "num_channels": 3, "num_hidden_layers": 4, "num_patches": 256, "patch_size": 16,
                                "vision_use_head": False}})


@folder
def minicpm_v_4_6(f, D=64):
    p = "model.vision_tower."
    siglip(f, p, D, 96, 4, 14, 16)
    f.norm(p + "vit_merger.layer_norm1", D, bias=True), lins(f, p + "vit_merger.self_attn.", "q_proj k_proj v_proj out_proj", D, D)
    f.norm(p + "vit_merger.pre_norm", 256, bias=True), f.lin(p + "vit_merger.linear_1", 96, 256, True), f.lin(p + "vit_merger.linear_2", D, 96, True)
    f.norm("model.merger.mlp.0.pre_norm", 256, bias=True), f.lin("model.merger.mlp.0.linear_1", 256, 256, True), f.lin("model.merger.mlp.0.linear_2", 128, 256, True)
    text_arrays(f, "model.language_model.", 128), f.lin("lm_head", 40, 128), f.lin("mtp.fc", 128, 256)
    pre(f, image_mean=MEAN, image_std=STD, scale_resolution=448, patch_size=14, downsample_mode="16x")
    f.finish({"architectures": ["MiniCPMV4_6ForConditionalGeneration"], "model_type": "minicpmv4_6", "insert_layer_id": 1,
              "text_config": qwen_text("qwen3_5_text"),
              "vision_config": {"hidden_size": D, "image_size": 980, "intermediate_size": 96, "layer_norm_eps": 1e-06, "num_attention_heads": 4,
                                "num_hidden_layers": 4, "patch_size": 14, "hidden_act": "gelu_pytorch_tanh"}})


def kimi_tower(f, D, n, patch=14):
    p = "vision_tower."
    f.add(p + "patch_embed.proj.weight", D, 3, patch, patch), f.add(p + "patch_embed.proj.bias", D), f.add(p + "patch_embed.pos_emb.weight", 4, 4, D)
    for i in range(n):
        b = f"{p}encoder.blocks.{i}."
        f.lin(b + "wqkv", 3 * D, D, True), f.lin(b + "wo", D, D, True), norms(f, b, "norm0 norm1", D)
        f.lin(b + "mlp.fc0", 96, D, True), f.lin(b + "mlp.fc1", D, 96, True)
    f.norm(p + "encoder.final_layernorm", D, bias=True)


def deepseek_text(**other):
    return {"hidden_size": 128, "intermediate_size": 256, "model_type": "deepseek_v3", "num_attention_heads": 4, "num_hidden_layers": 1,
            "num_key_value_heads": 4, "vocab_size": 40, **other}


@folder
def kimi_vl(f):
    kimi_tower(f, 64, 4)
    f.norm("multi_modal_projector.pre_norm", 64, bias=True), f.lin("multi_modal_projector.linear_1", 256, 256, True), f.lin("multi_modal_projector.linear_2", 128, 256, True)
    text_arrays(f, width=128)
    pre(f, image_mean=MEAN, image_std=STD, in_token_limit=4096, merge_kernel_size=[2, 2], num_pooled_tokens=1024, patch_size=14)
    f.finish({"architectures": ["KimiVLForConditionalGeneration"], "model_type": "kimi_vl", "media_placeholder_token_id": 30,
              "text_config": deepseek_text(), "vision_config": {"hidden_size": 64, "init_pos_emb_height": 4, "init_pos_emb_width": 4,
                                                                "intermediate_size": 96, "merge_kernel_size": [2, 2], "model_type": "moonvit",
                                                                "num_attention_heads": 4, "num_hidden_layers": 4, "patch_size": 14}})


@folder
def kimi_k25(f, D=128):
    kimi_tower(f, D, 4)
    f.norm("mm_projector.pre_norm", D, bias=True), f.lin("mm_projector.proj.0", 512, 512, True), f.lin("mm_projector.proj.2", 128, 512, True)
    text_arrays(f, width=128)
    pre(f, media_proc_cfg={"image_mean": MEAN, "image_std": STD, "in_patch_limit": 16384, "in_patch_limit_each_frame": 4096, "merge_kernel_size": 2,
                           "patch_size": 14}, auto_map={})
    f.finish({"architectures": ["KimiK25ForConditionalGeneration"], "model_type": "kimi_k25", "media_placeholder_token_id": 30,
              "text_config": deepseek_text(model_type="kimi_k2"),
              "vision_config": {"init_pos_emb_height": 4, "init_pos_emb_time": 4, "init_pos_emb_width": 4, "merge_kernel_size": [2, 2],
                                "merge_type": "sd2_tpool", "mm_hidden_size": D, "mm_projector_type": "patchmerger", "patch_size": 14,
                                "pos_emb_type": "divided_fixed", "projector_hidden_act": "gelu", "projector_ln_eps": 1e-05,
                                "text_hidden_size": 128, "vt_hidden_size": D, "vt_intermediate_size": 96, "vt_num_attention_heads": 16,
                                "vt_num_hidden_layers": 4}})


@folder
def glm_5v(f, D=128):
    kimi_tower(f, D, 3)
    f.norm("mm_projector.pre_norm", D, bias=True), f.lin("mm_projector.linear_1", 512, 512, True), f.lin("mm_projector.linear_2", 128, 512, True)
    text_arrays(f, width=128)
    pre(f, media_proc_cfg={"image_mean": MEAN, "image_std": STD, "in_patch_limit": 8192, "patch_size": 14})
    f.finish({"architectures": ["Glm5vForConditionalGeneration"], "model_type": "glm5v", "text_config": deepseek_text(model_type="glm_moe_dsa"),
              "vision_config": {"init_pos_emb_height": 4, "init_pos_emb_time": 4, "init_pos_emb_width": 4, "merge_kernel_size": [2, 2],
                                "patch_size": 14, "projector_hidden_act": "gelu", "projector_ln_eps": 1e-05, "vt_hidden_size": D,
                                "vt_intermediate_size": 96, "vt_num_attention_heads": 16, "vt_num_hidden_layers": 3}})


def glm(f, name, model_type, p="model.visual.", D=64, act="silu", norm=False, pos=True, **vision):
    mlp = (("gate_proj", 96, D), ("up_proj", 96, D), ("down_proj", D, 96))
    merger = (("proj", 128, 128), ("gate_proj", 160, 128), ("up_proj", 160, 128), ("down_proj", 128, 160))
    visual(f, p, D, 4, 14, mlp, merger)
    f.add(p + "patch_embed.proj.bias", D), f.norm(p + "post_layernorm", D), f.norm(p + "merger.post_projection_norm", 128, bias=True)
    if pos:
        f.add(p + "embeddings.position_embedding.weight", 16, D), f.norm(p + "post_conv_layernorm", D)
    f.add(p + "downsample.weight", 128, D, 2, 2), f.add(p + "downsample.bias", 128)
    for i in range(4):
        norms(f, f"{p}blocks.{i}.", "norm1 norm2", D, bias=False)
        if norm:
            norms(f, f"{p}blocks.{i}.attn.", "q_norm k_norm", 16, bias=False)
    text_arrays(f, "model.language_model.", 128), f.lin("lm_head", 40, 128)
    qwen_pre(f)
    f.finish({"architectures": [name], "model_type": model_type, "text_config": qwen_text(model_type + "_text"), "tie_word_embeddings": False,
              "vision_config": {"attention_bias": False, "depth": 4, "hidden_act": act, "hidden_size": D, "image_size": 336, "in_channels": 3,
                                "initializer_range": 0.02, "intermediate_size": 96, "model_type": model_type, "num_heads": 4,
                                "out_hidden_size": 128, "patch_size": 14, "rms_norm_eps": 1e-05, "spatial_merge_size": 2,
                                "temporal_patch_size": 2, **vision}})


@folder
def glm4v(f):
    glm(f, "Glm4vForConditionalGeneration", "glm4v")


@folder
def glm_ocr(f):
    glm(f, "GlmOcrForConditionalGeneration", "glm_ocr", norm=True, pos=False)


@folder
def glm5_next(f):
    glm(f, "Glm5NextForConditionalGeneration", "glm5_next", norm=True, pos=False, swiglu_limit=10.0)
    qwen_pre(f, min_image_tokens=4, max_image_tokens=4096)


@folder
def llama4(f, D=64):
    p = "vision_model."
    f.add(p + "class_embedding", D), f.add(p + "positional_embedding_vlm", 17, D), f.lin(p + "patch_embedding.linear", D, 588)
    norms(f, p, "layernorm_pre layernorm_post", D)
    for i in range(4):
        b = f"{p}model.layers.{i}."
        lins(f, b + "self_attn.", "q_proj k_proj v_proj o_proj", D, D), norms(f, b, "input_layernorm post_attention_layernorm", D)
        f.lin(b + "mlp.fc1", 96, D, True), f.lin(b + "mlp.fc2", D, 96, True)
    f.lin(p + "vision_adapter.mlp.fc1", 96, 256), f.lin(p + "vision_adapter.mlp.fc2", 96, 96), f.lin("multi_modal_projector.linear_1", 128, 96)
    text_arrays(f, width=128)
    pre(f, image_mean=MEAN, image_std=STD, image_processor_type="Llama4ImageProcessorFast", max_patches=16, size={"height": 336, "width": 336})
    f.finish({"architectures": ["Llama4ForConditionalGeneration"], "model_type": "llama4", "image_token_index": 30,
              "text_config": {"hidden_size": 128, "intermediate_size": 256, "model_type": "llama4_text", "num_attention_heads": 4, "num_hidden_layers": 1},
              "vision_config": {"hidden_act": "gelu", "hidden_size": D, "image_size": 336, "intermediate_size": 96, "model_type": "llama4_vision_model",
                                "norm_eps": 1e-05, "num_attention_heads": 4, "num_channels": 3, "num_hidden_layers": 4, "patch_size": 14,
                                "pixel_shuffle_ratio": 0.5, "projector_input_dim": 96, "projector_output_dim": 96, "rope_theta": 10000,
                                "vision_feature_layer": -1, "vision_output_dim": 96}})


@folder
def paddleocr_vl(f, D=64):
    siglip(f, "visual.vision_model.", D, 96, 4, 14, 16)
    f.add("visual.vision_model.embeddings.packing_position_embedding.weight", 32, D), f.add("visual.vision_model.head.probe", 1, 1, D)
    f.norm("mlp_AR.pre_norm", D, bias=True), f.lin("mlp_AR.linear_1", 256, 256, True), f.lin("mlp_AR.linear_2", 128, 256, True)
    text_arrays(f, "model.", 128)
    pre(f, image_mean=MEAN, image_std=STD, min_pixels=147384, max_pixels=2822400, merge_size=2, patch_size=14, temporal_patch_size=1)
    f.finish({"architectures": ["PaddleOCRVLForConditionalGeneration"], "model_type": "paddleocr_vl", **{k: v for k, v in qwen_text("-").items() if k != "model_type"},
              "vision_config": {"architectures": ["PaddleOCRVisionModel"], "hidden_act": "gelu_pytorch_tanh", "hidden_size": D, "image_size": 384,
                                "intermediate_size": 96, "layer_norm_eps": 1e-06, "model_type": "paddleocr_vl", "num_attention_heads": 4,
                                "num_channels": 3, "num_hidden_layers": 4, "patch_size": 14, "spatial_merge_size": 2}})


@folder
def minimax_m3(f, D=160):
    p = "vision_tower.vision_model."
    f.add(p + "embeddings.patch_embedding.weight", D, 3, 2, 14, 14), f.norm(p + "pre_layrnorm", D, bias=True), clip_layers(f, p, D, 96, 4)
    lins(f, "multi_modal_projector.", "linear_1", 192, D), lins(f, "multi_modal_projector.", "linear_2", 128, 192)
    f.lin("patch_merge_mlp.linear_1", 192, 512, True), f.lin("patch_merge_mlp.linear_2", 128, 192, True)
    text_arrays(f, width=128)
    pre(f, **CLIP, patch_size=14, merge_size=2, temporal_patch_size=2)
    f.finish({"architectures": ["MiniMaxM3SparseForConditionalGeneration"], "model_type": "minimax_m3_vl",
              "text_config": {"hidden_size": 128, "intermediate_size": 256, "model_type": "minimax_m3", "num_attention_heads": 4, "num_hidden_layers": 1},
              "vision_config": {"hidden_size": D, "image_size": 2016, "intermediate_size": 96, "layer_norm_eps": 1e-05, "model_type": "clip_vision_model",
                                "num_attention_heads": 2, "num_hidden_layers": 4, "patch_size": 14,
                                "img_token_compression_config": {"spatial_merge_size": 2, "temporal_patch_size": 2}}})


@folder
def muse_glimmer(f, D=64):
    p = "model.vision_tower."
    f.lin(p + "patch_embedder.patch_embedding", D, 1176), norms(f, p, "ln_pre ln_post", D)
    f.add(p + "patch_embedder.position_embedding_table.weight", 576, D)
    for i in range(4):
        b = f"{p}layers.{i}."
        lins(f, b + "attn.", "q_proj k_proj v_proj proj", D, D), norms(f, b, "norm1 norm2", D)
        f.lin(b + "mlp.fc1", 96, D, True), f.lin(b + "mlp.fc2", D, 96, True)
    f.lin("model.vision_adapter.fc1", 256, 256, True), f.lin("model.vision_adapter.fc2", 128, 256, True), f.lin("model.vision_projection", 128, 128)
    text_arrays(f, "model.language_model.", 128)
    pre(f, image_mean=MEAN, image_std=STD, patch_size=14, merge_size=2)
    f.finish({"architectures": ["MuseGlimmerForConditionalGeneration"], "model_type": "muse_glimmer", "text_config": qwen_text("muse_glimmer_text"),
              "vision_config": {"hidden_size": D, "intermediate_size": 96, "layer_norm_eps": 1e-05, "merge_size": 2, "num_attention_heads": 4,
                                "num_hidden_layers": 4, "patch_size": 14, "patch_temporal": 2, "pos_emb_height": 24, "pos_emb_width": 24}})


def blocks(f, p, D, n, mlp):
    for i in range(n):
        b = f"{p}{i}."
        f.lin(b + "attn.qkv", 3 * D, D), f.lin(b + "attn.proj", D, D), norms(f, b, "norm1 norm2", D, bias=False)
        for name, out, inp in mlp:
            f.lin(b + "mlp." + name, out, inp)


@folder
def dots_ocr(f, D=64):
    p = "vision_tower."
    f.add(p + "patch_embed.patchifier.proj.weight", D, 3, 14, 14), f.add(p + "patch_embed.patchifier.proj.bias", D), f.norm(p + "patch_embed.patchifier.norm", D)
    blocks(f, p + "blocks.", D, 4, (("fc1", 96, D), ("fc3", 96, D), ("fc2", D, 96)))
    f.norm(p + "post_trunk_norm", D), f.norm(p + "merger.ln_q", D, bias=True), f.lin(p + "merger.mlp.0", 256, 256, True), f.lin(p + "merger.mlp.2", 128, 256, True)
    text_arrays(f, "model.", 128)
    qwen_pre(f)
    f.finish({"architectures": ["DotsOCRForCausalLM"], **qwen_text("dots_ocr"), "image_token_id": 30,
              "vision_config": {"embed_dim": D, "hidden_size": D, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
                                "num_channels": 3, "patch_size": 14, "post_norm": True, "rms_norm_eps": 1e-05, "spatial_merge_size": 2,
                                "temporal_patch_size": 1, "use_bias": False}})


@folder
def hunyuan_vl(f, D=64):
    f.add("vit.embeddings.patch_embedding.weight", D, 3, 16, 16), f.add("vit.embeddings.patch_embedding.bias", D), f.add("vit.embeddings.position_embedding.weight", 17, D)
    for i in range(4):
        b = f"vit.layers.{i}."
        lins(f, b + "self_attn.", "q_proj k_proj v_proj o_proj", D, D), norms(f, b, "input_layernorm post_attention_layernorm", D)
        f.lin(b + "mlp.dense_h_to_4h", 96, D, True), f.lin(b + "mlp.dense_4h_to_h", D, 96, True)
    p = "vit.perceive."
    f.add(p + "proj.0.weight", 128, D, 2, 2), f.add(p + "proj.0.bias", 128), f.add(p + "proj.2.weight", 256, 128, 1, 1), f.add(p + "proj.2.bias", 256)
    f.lin(p + "mlp", 128, 256, True), f.norm(p + "before_rms", D), f.norm(p + "after_rms", 128)
    for name in ("image_begin", "image_end", "image_sep"):
        f.add(p + name, 128)
    f.add(p + "image_newline", 256)
    text_arrays(f, "model.", 128)
    pre(f, **CLIP, min_pixels=262144, max_pixels=4194304, patch_size=16, temporal_patch_size=1, merge_size=2)
    f.finish({"architectures": ["HunYuanVLForConditionalGeneration"], **qwen_text("hunyuan_vl"),
              "vision_config": {"hidden_size": D, "intermediate_size": 96, "max_image_size": 2048, "num_attention_heads": 4, "num_hidden_layers": 4,
                                "patch_size": 16, "rms_norm_eps": 1e-05, "spatial_merge_size": 2, "out_hidden_size": 128, "hidden_act": "gelu"}})


@folder
def janus_pro(f, D=64):
    p = "model.vision_model."
    f.add(p + "embeddings.patch_embedding.weight", D, 3, 16, 16), f.add(p + "embeddings.patch_embedding.bias", D), f.add(p + "embeddings.position_embedding.weight", 16, D)
    for i in range(4):
        b = f"{p}encoder.layers.{i}."
        lins(f, b + "self_attn.", "q_proj k_proj v_proj projection_layer", D, D), norms(f, b, "layer_norm1 layer_norm2", D)
        f.lin(b + "mlp.fc1", 256, D, True), f.lin(b + "mlp.fc2", D, 256, True)
    f.norm(p + "post_layernorm", D, bias=True), f.lin("model.aligner.fc1", 128, D, True), f.lin("model.aligner.hidden_layers.0", 128, 128, True)
    f.add("model.vqmodel.encoder.x", 8), f.lin("model.generation_head.vision_head", 8, 128), text_arrays(f, "model.language_model.", 128)
    pre(f, image_mean=MEAN, image_std=STD, size={"height": 384, "width": 384})
    f.finish({"architectures": ["JanusForConditionalGeneration"], "model_type": "janus", "text_config": qwen_text("llama"),
              "vision_config": {"hidden_act": "gelu", "hidden_size": D, "image_size": 384, "layer_norm_eps": 1e-06, "mlp_ratio": 4.0,
                                "model_type": "janus_vision_model", "num_attention_heads": 4, "num_hidden_layers": 4, "patch_size": 16,
                                "projection_dim": 128}})


@folder
def youtu_vl(f, D=64):
    p = "siglip2.vision_model."
    f.lin(p + "embeddings.patch_embedding", D, 768, True), clip_layers(f, p, D, 96, 4), f.norm(p + "post_layernorm", D, bias=True)
    f.norm("merger.ln_q", D), f.lin("merger.mlp.0", 256, 256, True), f.lin("merger.mlp.2", 128, 256, True)
    text_arrays(f, "model.", 128)
    pre(f, image_mean=MEAN, image_std=STD, patch_size=16)
    f.finish({"architectures": ["YoutuVLForConditionalGeneration"], **qwen_text("youtu_vl"),
              "vision_config": {"fullatt_block_indexes": [1, 3], "hidden_act": "gelu_pytorch_tanh", "hidden_size": D, "intermediate_size": 96,
                                "layer_norm_eps": 1e-06, "num_attention_heads": 4, "num_hidden_layers": 4, "patch_size": 16, "window_size": 256,
                                "spatial_merge_size": 2}})


@folder
def cogvlm(f, D=64):
    p = "model.vision."
    f.add(p + "patch_embedding.cls_embedding", 1, D), f.add(p + "patch_embedding.proj.weight", D, 3, 14, 14), f.add(p + "patch_embedding.proj.bias", D)
    f.add(p + "patch_embedding.position_embedding.weight", 17, D), f.add(p + "boi", 1, 1, 128), f.add(p + "eoi", 1, 1, 128)
    for i in range(4):
        b = f"{p}transformer.layers.{i}."
        f.lin(b + "attention.query_key_value", 3 * D, D, True), f.lin(b + "attention.dense", D, D, True), norms(f, b, "input_layernorm post_attention_layernorm", D)
        f.lin(b + "mlp.fc1", 96, D, True), f.lin(b + "mlp.fc2", D, 96, True)
    p += "linear_proj."
    f.lin(p + "linear_proj", 128, 64), f.norm(p + "norm1", 128, bias=True), lins(f, p, "dense_h_to_4h gate_proj", 160, 128, False), f.lin(p + "dense_4h_to_h", 128, 160)
    text_arrays(f, "model.", 128)
    pre(f, **CLIP)
    f.finish({"architectures": ["CogVLMForCausalLM"], **qwen_text("cogvlm"),
              "vision_config": {"dropout_prob": 0.0, "hidden_act": "gelu", "hidden_size": D, "image_size": 1344, "in_channels": 3, "intermediate_size": 96,
                                "layer_norm_eps": 1e-06, "num_heads": 4, "num_hidden_layers": 4, "num_positions": 17, "patch_size": 14}})


@folder
def exaone4_dot_5(f, D=64):
    p = "model.visual."
    f.add(p + "patch_embed.proj.weight", D, 3, 2, 14, 14), f.norm(p + "merger.ln_q", D), f.lin(p + "merger.mlp.0", 256, 256, True), f.lin(p + "merger.mlp.2", 128, 256, True)
    for i in range(4):
        b = f"{p}blocks.{i}."
        f.lin(b + "attn.qkv", 128, D, True), f.lin(b + "attn.proj", D, D, True), norms(f, b, "norm1 norm2", D, bias=False)
        f.lin(b + "mlp.gate_proj", 96, D, True), f.lin(b + "mlp.up_proj", 96, D, True), f.lin(b + "mlp.down_proj", D, 96, True)
    text_arrays(f, "model.language_model.", 128)
    qwen_pre(f)
    f.finish({"architectures": ["Exaone4_5_ForConditionalGeneration"], "model_type": "exaone4_5", "text_config": qwen_text("exaone4"),
              "vision_config": {"depth": 4, "hidden_act": "silu", "hidden_size": D, "intermediate_size": 96, "num_heads": 4, "num_key_value_heads": 2,
                                "out_hidden_size": 128, "patch_size": 14, "spatial_merge_size": 2, "window_size": 112, "fullatt_block_indexes": [1, 3],
                                "temporal_patch_size": 2, "rms_norm_eps": 1e-06}})


@folder
def bailing3_vl(f, D=64):
    p = "model.visual."
    visual(f, p, D, 3, 16, (("linear_fc1", 96, D), ("linear_fc2", D, 96)), ())
    f.add(p + "pos_embed.weight", 64, D), f.norm(p + "merger.norm", D, bias=True)
    for i in range(3):
        norms(f, f"{p}blocks.{i}.", "norm1 norm2", D)
    f.lin("linear_proj.0", 128, 256, True), f.lin("linear_proj.2", 128, 128, True), text_arrays(f, "model.language_model.", 128)
    pre(f, image_mean=MEAN, image_std=STD, patch_size=16, merge_size=2)
    f.finish({"architectures": ["BailingMoeV3VLForConditionalGeneration"], "model_type": "bailing_moe_v3_vl", "text_config": qwen_text("bailing_moe_v3"),
              "vision_config": {"depth": 3, "disable_merger_proj": True, "hidden_act": "gelu_pytorch_tanh", "hidden_size": D, "in_channels": 3,
                                "intermediate_size": 96, "num_heads": 4, "num_position_embeddings": 64, "out_hidden_size": 256, "patch_size": 16,
                                "spatial_merge_size": 2, "temporal_patch_size": 2}})


# ---- models that hear

def whisper(f, p, width, inner, n, bins=16, norm="layer_norm", positions=True):
    f.add(p + "conv1.weight", width, bins, 3), f.add(p + "conv1.bias", width), f.add(p + "conv2.weight", width, width, 3), f.add(p + "conv2.bias", width)
    if positions:
        f.add(p + "embed_positions.weight", 30, width)
    audio_layers(f, p, width, inner, n, norm)


def audio_layers(f, p, width, inner, n, norm):
    for i in range(n):
        b = f"{p}layers.{i}."
        lins(f, b + "self_attn.", "q_proj v_proj out_proj", width, width), f.lin(b + "self_attn.k_proj", width, width)
        norms(f, b, "self_attn_layer_norm final_layer_norm", width)
        f.lin(b + "fc1", inner, width, True), f.lin(b + "fc2", width, inner, True)
    f.norm(p + norm, width, bias=True)


def whisper_config(model_type, **other):
    return {"activation_function": "gelu", "d_model": 64, "encoder_attention_heads": 4, "encoder_ffn_dim": 96, "encoder_layers": 4,
            "max_source_positions": 30, "model_type": model_type, "num_mel_bins": 16, "scale_embedding": False, **other}


@folder
def qwen2_audio(f):
    whisper(f, "audio_tower.", 64, 96, 4), f.lin("multi_modal_projector.linear", 128, 64, True), text_arrays(f, width=128)
    f.finish({"architectures": ["Qwen2AudioForConditionalGeneration"], "model_type": "qwen2_audio", "text_config": qwen_text("qwen2"),
              "audio_config": whisper_config("qwen2_audio_encoder")})


@folder
def ultravox(f):
    whisper(f, "audio_tower.", 64, 96, 4)
    f.norm("multi_modal_projector.ln_pre", 256), f.lin("multi_modal_projector.linear_1", 192, 256), f.lin("multi_modal_projector.linear_2", 128, 96)
    f.norm("multi_modal_projector.ln_mid", 96)
    f.finish({"architectures": ["UltravoxModel"], "model_type": "ultravox", "stack_factor": 4, "projector_act": "swiglu", "projector_ln_mid": True,
              "hidden_size": 128, "vocab_size": 40, "text_model_id": None, "audio_model_id": None,
              "text_config": {"hidden_size": 128, "model_type": "llama", "architectures": ["LlamaForCausalLM"]},
              "audio_config": whisper_config("whisper", num_hidden_layers=4)})


@folder
def voxtral(f):
    whisper(f, "audio_tower.", 64, 256, 4), f.lin("multi_modal_projector.linear_1", 128, 256), f.lin("multi_modal_projector.linear_2", 128, 128)
    text_arrays(f, width=128)
    f.finish({"architectures": ["VoxtralForConditionalGeneration"], "model_type": "voxtral", "audio_token_id": 24, "hidden_size": 128,
              "projector_hidden_act": "gelu", "text_config": mistral_text(model_type="llama"),
              "audio_config": {"hidden_size": 64, "intermediate_size": 256, "num_attention_heads": 4, "num_hidden_layers": 4, "num_mel_bins": 16,
                               "max_source_positions": 30, "model_type": "voxtral_encoder", "head_dim": 16, "activation_function": "gelu"}})


@folder
def audio_flamingo(f):
    whisper(f, "audio_tower.", 64, 96, 4), f.lin("multi_modal_projector.linear_1", 128, 64, True), f.lin("multi_modal_projector.linear_2", 128, 128, True)
    text_arrays(f, width=128)
    f.finish({"architectures": ["AudioFlamingo3ForConditionalGeneration"], "model_type": "audioflamingo3", "text_config": qwen_text("qwen2"),
              "audio_config": {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_hidden_layers": 4, "num_mel_bins": 16,
                               "max_source_positions": 30, "model_type": "audioflamingo3_encoder"}})


@folder
def meralion(f):
    whisper(f, "speech_encoder.", 64, 96, 4), f.norm("ln_speech", 64, bias=True), f.lin("speech_audio_adapter.mlp_adapter.0", 96, 960, True)
    f.lin("speech_audio_adapter.gate_proj", 96, 96, True), f.lin("speech_audio_adapter.pool_proj", 96, 96, True), f.lin("speech_audio_adapter.out_proj", 128, 96, True)
    text_arrays(f, "text_decoder.model.", 128)
    f.finish({"architectures": ["MERaLiON2ForConditionalGeneration"], "model_type": "meralion2", "speech_mlp_scale_factor": 15, "hidden_size": 128,
              "text_config": {"hidden_size": 128, "model_type": "gemma2"}, "speech_config": whisper_config("whisper", num_hidden_layers=4)})


@folder
def glm_asr(f):
    whisper(f, "audio_encoder.whisper.", 64, 96, 4, positions=False)
    f.norm("audio_encoder.layer_norm", 64, bias=True), f.lin("audio_encoder.adapting.0", 256, 256, True), f.lin("audio_encoder.adapting.2", 128, 256, True)
    f.add("audio_encoder.audio_bos_eos_token.weight", 2, 128)
    text_arrays(f, "model.", 128)
    f.finish({"architectures": ["GlmasrModel"], "model_type": "Glmasr", "merge_factor": 4, "mlp_adapter_act": "gelu", "spec_aug": False,
              "lm_config": {"hidden_size": 128, "model_type": "llama"}, "whisper_config": whisper_config("whisper", num_hidden_layers=4)})


@folder
def qwen3_asr(f):
    p = "thinker.audio_tower."
    for i in (1, 2, 3):
        f.add(f"{p}conv2d{i}.weight", 16, 1 if i == 1 else 16, 3, 3), f.add(f"{p}conv2d{i}.bias", 16)
    f.lin(p + "conv_out", 64, 32), audio_layers(f, p, 64, 96, 4, "ln_post"), f.lin(p + "proj1", 64, 64, True), f.lin(p + "proj2", 128, 64, True)
    text_arrays(f, "thinker.model.", 128)
    f.finish({"architectures": ["Qwen3ASRForConditionalGeneration"], "model_type": "qwen3_asr",
              "thinker_config": {"audio_config": {**whisper_config("qwen3_asr_audio_encoder"), "downsample_hidden_size": 16, "output_dim": 128},
                                 "text_config": qwen_text("qwen3"), "model_type": "qwen3_asr"}})


# ---- models that see and hear

def clipped(f, name, out, width):
    """A matrix, and the bounds of what flows through it"""
    f.lin(name + ".linear", out, width)
    for bound in ("input_max", "input_min", "output_max", "output_min"):
        f.add(f"{name}.{bound}", around=3.0 if "max" in bound else -3.0)


def gemma4_folder(f, hears, D=64):
    p = "model.vision_tower."
    f.lin(p + "patch_embedder.input_proj", D, 768), f.add(p + "patch_embedder.position_embedding_table", 2, 16, D)
    f.add(p + "std_bias", D), f.add(p + "std_scale", D)
    for i in range(2):
        b = f"{p}encoder.layers.{i}."
        for x in ("q_proj", "k_proj", "v_proj", "o_proj"):
            clipped(f, b + "self_attn." + x, D, D)
        norms(f, b + "self_attn.", "q_norm k_norm", 16, bias=False)
        norms(f, b, "input_layernorm post_attention_layernorm pre_feedforward_layernorm post_feedforward_layernorm", D, bias=False)
        clipped(f, b + "mlp.gate_proj", 96, D), clipped(f, b + "mlp.up_proj", 96, D), clipped(f, b + "mlp.down_proj", D, 96)
        f.add(b + "layer_scalar", 1)
    f.lin("model.embed_vision.embedding_projection", 128, D)
    if hears:
        gemma4_audio(f, "model.audio_tower.")
    text_arrays(f, "model.language_model.", 128)
    write(f.path, "processor_config.json", {"image_seq_length": 280, "processor_class": "Gemma4Processor",
                                            "image_processor": {"image_mean": [0.0, 0.0, 0.0], "image_std": [1.0, 1.0, 1.0], "patch_size": 16}})
    audio = {"attention_chunk_size": 12, "conv_kernel_size": 5, "hidden_size": 64, "model_type": "gemma4_audio", "num_attention_heads": 4,
             "num_hidden_layers": 2, "output_proj_dims": 96, "subsampling_conv_channels": [16, 8], "rms_norm_eps": 1e-06}
    f.finish({"architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "audio_config": audio if hears else None,
              "text_config": {"hidden_size": 128, "intermediate_size": 256, "model_type": "gemma4_text", "num_attention_heads": 4, "num_hidden_layers": 1},
              "vision_config": {"head_dim": 16, "hidden_size": D, "intermediate_size": 96, "model_type": "gemma4_vision", "num_attention_heads": 4,
                                "num_hidden_layers": 2, "num_key_value_heads": 4, "patch_size": 16, "pooling_kernel_size": 3,
                                "position_embedding_size": 16, "rms_norm_eps": 1e-06}})


def gemma4_audio(f, p, D=64):
    b = p + "subsample_conv_projection."
    f.add(b + "layer0.conv.weight", 16, 1, 3, 3), f.norm(b + "layer0.norm", 16), f.add(b + "layer1.conv.weight", 8, 16, 3, 3), f.norm(b + "layer1.norm", 8)
    f.lin(b + "input_proj_linear", D, 32), f.lin(p + "output_proj", 96, D, True), f.lin("model.embed_audio.embedding_projection", 128, 96)
    for i in range(2):
        b = f"{p}layers.{i}."
        for x in ("q_proj", "k_proj", "v_proj", "post"):
            clipped(f, b + "self_attn." + x, D, D)
        f.lin(b + "self_attn.relative_k_proj", D, D), f.add(b + "self_attn.per_dim_scale", 16)
        norms(f, b, "norm_pre_attn norm_post_attn norm_out", D, bias=False)
        for part in ("feed_forward1.", "feed_forward2."):
            norms(f, b + part, "pre_layer_norm post_layer_norm", D, bias=False)
            clipped(f, b + part + "ffw_layer_1", 96, D), clipped(f, b + part + "ffw_layer_2", D, 96)
        norms(f, b + "lconv1d.", "pre_layer_norm conv_norm", D, bias=False), f.add(b + "lconv1d.depthwise_conv1d.weight", D, 1, 5)
        clipped(f, b + "lconv1d.linear_start", 2 * D, D), clipped(f, b + "lconv1d.linear_end", D, D)


@folder
def gemma4(f):
    gemma4_folder(f, True)


@folder
def gemma4_sees(f):
    gemma4_folder(f, False)


@folder
def gemma4_unified(f, D=64):
    p = "model.vision_embedder."
    f.add(p + "pos_embedding", 16, 2, D), f.norm(p + "pos_norm", D, bias=True), f.lin(p + "patch_dense", D, 6912, True), f.norm(p + "patch_ln1", 6912, bias=True), f.norm(p + "patch_ln2", D, bias=True)
    f.lin("model.embed_vision.embedding_projection", 128, D), f.lin("model.embed_audio.embedding_projection", 128, 80), text_arrays(f, "model.language_model.", 128)
    write(f.path, "processor_config.json", {"image_processor": {"image_mean": [0.0, 0.0, 0.0], "image_std": [1.0, 1.0, 1.0], "patch_size": 16}})
    f.finish({"architectures": ["Gemma4UnifiedForConditionalGeneration"], "model_type": "gemma4_unified",
              "audio_config": {"audio_embed_dim": 80, "model_type": "gemma4_unified_audio"},
              "text_config": {"hidden_size": 128, "intermediate_size": 256, "model_type": "gemma4_text", "num_attention_heads": 4, "num_hidden_layers": 1},
              "vision_config": {"mm_embed_dim": D, "mm_posemb_size": 16, "model_patch_size": 48, "model_type": "gemma4_unified_vision", "patch_size": 16, "pooling_kernel_size": 3}})


@folder
def gemma3n(f, D=64):
    p = "model.vision_tower.timm_model."
    f.add(p + "conv_stem.conv.weight", 16, 3, 3, 3), f.add(p + "conv_stem.conv.bias", 16), f.norm(p + "conv_stem.bn", 16)
    for b, names in (("blocks.0.0.", ("conv_exp", "bn1", "conv_pwl", "bn2")),
                     ("blocks.1.0.", ("dw_start.conv", "dw_start.bn", "dw_mid.conv", "dw_mid.bn", "pw_exp.conv", "pw_exp.bn", "pw_proj.conv", "pw_proj.bn")),
                     ("blocks.2.1.", ("attn.query.proj", "attn.key.proj", "attn.value.proj", "attn.output.proj", "attn.key.down_conv", "attn.key.norm",
                                      "attn.value.down_conv", "attn.value.norm", "norm"))):
        for name in names:  # parts within a block are 32 wide, between blocks 16
            inner = name.startswith(("dw_mid", "pw_exp", "conv_exp", "bn1"))
            if name.endswith(("bn", "bn1", "bn2", "norm")):
                f.norm(p + b + name, 32 if inner else 16)
            elif "dw_" in name or "down_conv" in name:
                f.add(p + b + name + ".weight", 32 if inner else 16, 1, 3, 3)
            else:
                f.add(p + b + name + ".weight", *((16, 32) if name in ("conv_pwl", "pw_proj.conv", "attn.output.proj") else (32, 16)), 1, 1)
    f.add(p + "blocks.2.1.layer_scale.gamma", 16)
    f.add(p + "msfa.ffn.pw_exp.conv.weight", 32, 16, 1, 1), f.norm(p + "msfa.ffn.pw_exp.bn", 32), f.add(p + "msfa.ffn.pw_proj.conv.weight", D, 32, 1, 1)
    f.norm(p + "msfa.ffn.pw_proj.bn", D), f.norm(p + "msfa.norm", D)
    for part in ("embed_vision", "embed_audio"):
        f.add(f"model.{part}.embedding.weight", 8, D), f.norm(f"model.{part}.hard_embedding_norm", D), f.norm(f"model.{part}.soft_embedding_norm", D)
        f.lin(f"model.{part}.embedding_projection", 128, D)
    p = "model.audio_tower."
    f.add(p + "subsample_conv_projection.conv_0.conv.weight", 16, 1, 3, 3), f.add(p + "subsample_conv_projection.conv_1.conv.weight", 8, 16, 3, 3)
    f.lin(p + "subsample_conv_projection.input_proj_linear", D, 32)
    for i in range(2):
        b = f"{p}conformer.{i}."
        lins(f, b + "attention.attn.", "q_proj k_proj v_proj", D, D, False), f.lin(b + "attention.post", D, D), f.add(b + "attention.attn.per_dim_scale", 16)
        f.lin(b + "attention.attn.relative_position_embedding.pos_proj", D, D), norms(f, b + "attention.", "pre_attn_norm post_norm", D, bias=False)
        for part in ("ffw_layer_start.", "ffw_layer_end."):
            norms(f, b + part, "pre_layer_norm post_layer_norm", D, bias=False), f.lin(b + part + "ffw_layer_1", 96, D), f.lin(b + part + "ffw_layer_2", D, 96)
        norms(f, b + "lconv1d.", "pre_layer_norm conv_norm", D, bias=False), f.add(b + "lconv1d.depthwise_conv1d.weight", D, 1, 5)
        f.lin(b + "lconv1d.linear_start", 2 * D, D), f.lin(b + "lconv1d.linear_end", D, D), f.norm(b + "norm", D)
    text_arrays(f, "model.language_model.", 128)
    pre(f, image_mean=MEAN, image_std=STD, image_seq_length=256, size={"height": 768, "width": 768}, feature_size=128)
    f.finish({"architectures": ["Gemma3nForConditionalGeneration"], "model_type": "gemma3n",
              "audio_config": {"conf_attention_chunk_size": 12, "conf_num_attention_heads": 4, "conf_num_hidden_layers": 2, "conf_conv_kernel_size": 5,
                               "hidden_size": D, "input_feat_size": 16, "model_type": "gemma3n_audio", "vocab_size": 8, "rms_norm_eps": 1e-06},
              "text_config": {"hidden_size": 128, "intermediate_size": 256, "model_type": "gemma3n_text", "num_attention_heads": 4, "num_hidden_layers": 1},
              "vision_config": {"architecture": "mobilenetv5_300m_enc", "hidden_size": D, "model_type": "gemma3n_vision", "num_classes": 2,
                                "do_pooling": False, "vocab_size": 8, "rms_norm_eps": 1e-06}})


def omni_audio(f, p):
    whisper(f, p, 64, 96, 4, norm="ln_post", positions=False), f.lin(p + "proj", 128, 64, True), f.add(p + "audio_bos_eos_token.weight", 2, 128)


@folder
def qwen2_dot_5_omni(f, D=64):
    p = "thinker.visual."
    visual(f, p, D, 4, 14, (("gate_proj", 96, D), ("up_proj", 96, D), ("down_proj", D, 96)), (("mlp.0", 256, 256), ("mlp.2", 128, 256)))
    for i in range(4):
        norms(f, f"{p}blocks.{i}.", "norm1 norm2", D, bias=False)
    f.norm(p + "merger.ln_q", D), omni_audio(f, "thinker.audio_tower."), text_arrays(f, "thinker.model.", 128), f.lin("talker.codec_head", 8, 128)
    f.add("token2wav.code2wav_dit_model.x", 8)
    qwen_pre(f)
    vision = {"depth": 4, "hidden_act": "silu", "hidden_size": D, "intermediate_size": 96, "num_heads": 4, "in_channels": 3, "out_hidden_size": 128,
              "patch_size": 14, "spatial_merge_size": 2, "window_size": 112, "fullatt_block_indexes": [1, 3], "tokens_per_second": 25,
              "temporal_patch_size": 2, "model_type": "qwen2_5_omni_vision_encoder"}
    f.finish({"architectures": ["Qwen2_5OmniModel"], "model_type": "qwen2_5_omni",
              "thinker_config": {"audio_config": {**whisper_config("qwen2_5_omni_audio_encoder"), "num_hidden_layers": 4, "output_dim": 128},
                                 "vision_config": vision, "text_config": qwen_text("qwen2_5_omni_text"), "model_type": "qwen2_5_omni_thinker"}})


# ---- the less common families

def qwen_audio(f, p, D=64):
    for i in (1, 2, 3):
        f.add(f"{p}conv2d{i}.weight", 16, 1 if i == 1 else 16, 3, 3), f.add(f"{p}conv2d{i}.bias", 16)
    f.lin(p + "conv_out", D, 32), audio_layers(f, p, D, 96, 4, "ln_post"), f.lin(p + "proj1", D, D, True), f.lin(p + "proj2", 128, D, True)


@folder
def qwen3_omni(f, D=64):
    p = "thinker.visual."
    visual(f, p, D, 3, 16, (("linear_fc1", 96, D), ("linear_fc2", D, 96)), (("mlp.0", 256, 256), ("mlp.2", 128, 256)))
    f.add(p + "patch_embed.proj.bias", D), f.add(p + "pos_embed.weight", 64, D), f.norm(p + "merger.ln_q", D, bias=True)
    for i in range(3):
        norms(f, f"{p}blocks.{i}.", "norm1 norm2", D)
    for i in range(2):
        f.norm(f"{p}merger_list.{i}.ln_q", 256, bias=True)
        f.lin(f"{p}merger_list.{i}.mlp.0", 256, 256, True), f.lin(f"{p}merger_list.{i}.mlp.2", 128, 256, True)
    qwen_audio(f, "thinker.audio_tower."), text_arrays(f, "thinker.model.", 128), f.lin("talker.codec_head", 8, 128), f.lin("code2wav.decoder.0", 8, 128)
    pre(f, image_mean=MEAN, image_std=STD, patch_size=16, temporal_patch_size=2, merge_size=2, image_processor_type="Qwen2VLImageProcessorFast")
    vision = {"deepstack_visual_indexes": [0, 2], "depth": 3, "hidden_act": "gelu_pytorch_tanh", "hidden_size": D, "image_size": 768, "in_channels": 3,
              "intermediate_size": 96, "model_type": "qwen3_omni_moe_vision_encoder", "num_heads": 4, "num_position_embeddings": 64,
              "out_hidden_size": 128, "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2}
    f.finish({"architectures": ["Qwen3OmniMoeForConditionalGeneration"], "model_type": "qwen3_omni_moe", "enable_audio_output": True,
              "thinker_config": {"audio_config": {**whisper_config("qwen3_omni_moe_audio_encoder"), "downsample_hidden_size": 16, "num_hidden_layers": 4, "output_dim": 128},
                                 "vision_config": vision, "text_config": qwen_text("qwen3_omni_moe_text"), "model_type": "qwen3_omni_moe_thinker"}})


def deepseek_ocr_eyes(f, D=64):
    """Segment-anything's encoder, which DeepSeek's OCR models see by first"""
    p = "model.sam_model."
    f.add(p + "pos_embed", 1, 4, 4, D), f.add(p + "patch_embed.proj.weight", D, 3, 16, 16), f.add(p + "patch_embed.proj.bias", D)
    for i in range(2):
        b = f"{p}blocks.{i}."
        norms(f, b, "norm1 norm2", D), f.lin(b + "attn.qkv", 3 * D, D, True), f.lin(b + "attn.proj", D, D, True)
        f.add(b + "attn.rel_pos_h", 7, 16), f.add(b + "attn.rel_pos_w", 7, 16), f.lin(b + "mlp.lin1", 96, D, True), f.lin(b + "mlp.lin2", D, 96, True)
    f.add(p + "neck.0.weight", 32, D, 1, 1), f.norm(p + "neck.1", 32, bias=True), f.add(p + "neck.2.weight", 32, 32, 3, 3), f.norm(p + "neck.3", 32, bias=True)
    f.add(p + "net_2.weight", 48, 32, 3, 3), f.add(p + "net_3.weight", D, 48, 3, 3)


def deepseek_ocr_folder(f, name, D=64):
    deepseek_ocr_eyes(f)
    p = "model.vision_model."
    f.add(p + "embeddings.class_embedding", D), f.add(p + "embeddings.patch_embedding.weight", D, 3, 14, 14)
    f.add(p + "embeddings.position_embedding.weight", 17, D), f.norm(p + "pre_layrnorm", D, bias=True)
    for i in range(4):
        b = f"{p}transformer.layers.{i}."
        f.lin(b + "self_attn.qkv_proj", 3 * D, D, True), f.lin(b + "self_attn.out_proj", D, D, True), norms(f, b, "layer_norm1 layer_norm2", D)
        f.lin(b + "mlp.fc1", 96, D, True), f.lin(b + "mlp.fc2", D, 96, True)
    f.lin("model.projector.layers", 128, 2 * D, True), f.add("model.image_newline", 128), f.add("model.view_seperator", 128)
    text_arrays(f, "model.", 128), f.lin("lm_head", 40, 128)
    write(f.path, "processor_config.json", {"image_mean": MEAN, "image_std": STD, "patch_size": 16, "downsample_ratio": 4, "candidate_resolutions": [[1024, 1024]]})
    f.finish({"architectures": [name], "model_type": "DeepseekOCR", "hidden_size": 128, "num_hidden_layers": 1, "candidate_resolutions": [[1024, 1024]],
              "global_view_pos": "head", "tile_tag": "2D", "language_config": {"hidden_size": 128, "model_type": "deepseek_v2", "num_hidden_layers": 1},
              "projector_config": {"input_dim": 2 * D, "model_type": "mlp_projector", "n_embed": 128, "projector_type": "linear"},
              "vision_config": {"image_size": 1024, "mlp_ratio": 3.7362, "model_name": "deeplip_b_l", "model_type": "vision",
                                "width": {"clip-l-14-224": {"heads": 4, "image_size": 224, "layers": 4, "patch_size": 14, "width": D},
                                          "sam_vit_b": {"downsample_channels": [48, D], "global_attn_indexes": [1], "heads": 4, "layers": 2, "width": D}}}})


@folder
def deepseek_ocr(f):
    deepseek_ocr_folder(f, "DeepseekOCRForCausalLM")


@folder
def unlimited_ocr(f):
    deepseek_ocr_folder(f, "UnlimitedOCRForCausalLM")


@folder
def deepseek_ocr_2(f, D=64):
    deepseek_ocr_eyes(f)
    p = "model.qwen2_model."
    for i in range(4):
        b = f"{p}model.model.layers.{i}."
        f.lin(b + "self_attn.q_proj", D, D, True), lins(f, b + "self_attn.", "k_proj v_proj", 16, D), f.lin(b + "self_attn.o_proj", D, D)
        lins(f, b + "mlp.", "gate_proj up_proj", 96, D, False), f.lin(b + "mlp.down_proj", D, 96)
        norms(f, b, "input_layernorm post_attention_layernorm", D, bias=False)
    f.norm(p + "model.model.norm", D), f.add(p + "query_768.weight", 9, D), f.add(p + "query_1024.weight", 16, D)
    f.lin("model.projector.layers", 128, D, True), f.add("model.view_seperator", 128), text_arrays(f, "model.", 128), f.lin("lm_head", 40, 128)
    write(f.path, "processor_config.json", {"image_mean": MEAN, "image_std": STD, "patch_size": 16, "downsample_ratio": 4, "candidate_resolutions": [[1024, 1024]]})
    f.finish({"architectures": ["DeepseekOCR2ForCausalLM"], "model_type": "DeepseekOCR2", "hidden_size": 128, "num_hidden_layers": 1,
              "language_config": {"hidden_size": 128, "model_type": "deepseek_v2", "num_hidden_layers": 1},
              "projector_config": {"input_dim": D, "model_type": "mlp_projector", "n_embed": 128, "projector_type": "linear"},
              "vision_config": {"image_size": 1024, "mlp_ratio": 3.7362, "model_name": "deepencoderv2", "model_type": "vision", "layers": 4,
                                "width": {"qwen2-0-5b": {"dim": D},
                                          "sam_vit_b": {"downsample_channels": [48, D], "global_attn_indexes": [1], "heads": 4, "layers": 2, "width": D}}}})


@folder
def phi4_vision(f, D=64):
    p = "model.vision_tower.vision_tower.vision_model."
    f.lin(p + "embeddings.patch_embedding", D, 768, True), f.add(p + "embeddings.position_embedding.weight", 16, D), clip_layers(f, p, D, 96, 4)
    f.norm(p + "post_layernorm", D, bias=True), f.add(p + "head.probe", 1, 1, D), f.lin(p + "head.mlp.fc1", 96, D, True)
    f.lin("model.mm_projector.0", 128, D, True), f.lin("model.mm_projector.2", 128, 128, True), text_arrays(f, "model.", 128), f.lin("lm_head", 40, 128)
    pre(f, image_mean=MEAN, image_std=STD, patch_size=16, min_num_patches=256, max_num_patches=3600, image_processor_type="Siglip2ImageProcessor")
    f.finish({"architectures": ["Phi4ForCausalLMV"], "model_type": "phi4-siglip", "hidden_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4,
              "mm_projector_type": "mlp2x_gelu", "mm_hidden_size": D, "min_num_patches": 256, "max_num_patches": 3600, "vocab_size": 40,
              "vision_config": {"hidden_size": D, "intermediate_size": 96, "model_type": "siglip2_vision_model", "num_attention_heads": 4,
                                "num_hidden_layers": 4, "num_patches": 256, "patch_size": 16, "layer_norm_eps": 1e-06}})


@folder
def step3_vl(f, D=64):
    p = "vision_model."
    f.add(p + "conv1.weight", D, 3, 14, 14), f.add(p + "positional_embedding", 16, D), f.norm(p + "ln_pre", D, bias=True)
    for i in range(2):
        b = f"{p}transformer.resblocks.{i}."
        f.add(b + "attn.in_proj_weight", 3 * D, D), f.add(b + "attn.in_proj_bias", 3 * D), f.lin(b + "attn.out_proj", D, D, True)
        norms(f, b, "ln_1 ln_2", D), f.add(b + "ls_1.gamma", D), f.add(b + "ls_2.gamma", D), f.lin(b + "mlp.c_fc", 373, D, True), f.lin(b + "mlp.c_proj", D, 373, True)
    f.add(p + "vit_downsampler1.weight", 96, D, 3, 3), f.add(p + "vit_downsampler1.bias", 96)
    f.add(p + "vit_downsampler2.weight", 128, 96, 3, 3), f.add(p + "vit_downsampler2.bias", 128)
    f.lin("vit_large_projector", 128, 128), text_arrays(f, "model.", 128), f.lin("lm_head", 40, 128)
    f.finish({"architectures": ["StepVLForConditionalGeneration"], "model_type": "step_robotics", "im_end_token": "<im_end>", "image_token_len": 169,
              "understand_projector_stride": 2, "projector_bias": False, "vision_select_layer": -1, "text_config": qwen_text("qwen3"),
              "vision_config": {"image_size": 728, "patch_size": 14, "width": D, "layers": 2, "heads": 4, "hidden_act": "quick_gelu", "ls_init_value": 0.1,
                                "mlp_ratio": 8960 / 1536, "output_dim": None, "pool_type": "none", "use_abs_posemb": True, "use_cls_token": False,
                                "use_ln_post": False, "use_ln_pre": True, "use_rope2d": True}})


def qformer(f, b, width, inner, seen):
    """A layer that asks what is seen or heard"""
    for part, of in (("attention", width), ("crossattention", seen)):
        f.lin(f"{b}{part}.attention.query", width, width, True), lins(f, f"{b}{part}.attention.", "key value", width, of)
        f.lin(f"{b}{part}.output.dense", width, width, True), f.norm(f"{b}{part}.output.LayerNorm", width, bias=True)
    f.lin(b + "intermediate_query.dense", inner, width, True), f.lin(b + "output_query.dense", width, inner, True), f.norm(b + "output_query.LayerNorm", width, bias=True)


def granite_speech_folder(f, name, cat, D=64):
    f.lin("encoder.input_linear", D, 20, True), f.lin("encoder.out", 32, D, True), f.lin("encoder.out_mid", D, 32, True)
    for i in range(3):
        b = f"encoder.layers.{i}."
        for part in ("ff1.", "ff2."):
            f.norm(b + part + "pre_norm", D, bias=True), f.lin(b + part + "up_proj", 4 * D, D, True), f.lin(b + part + "down_proj", D, 4 * D, True)
        f.norm(b + "attn.pre_norm", D, bias=True), f.lin(b + "attn.to_q", D, D), f.lin(b + "attn.to_kv", 2 * D, D), f.lin(b + "attn.to_out", D, D, True)
        f.add(b + "attn.rel_pos_emb.weight", 33, 16), f.norm(b + "conv.norm", D, bias=True), f.norm(b + "post_norm", D, bias=True)
        f.add(b + "conv.up_conv.weight", 4 * D, D, 1), f.add(b + "conv.up_conv.bias", 4 * D), f.add(b + "conv.down_conv.weight", D, 2 * D, 1), f.add(b + "conv.down_conv.bias", D)
        f.add(b + "conv.depth_conv.conv.weight", 2 * D, 1, 15), f.norm(b + "conv.batch_norm", 2 * D, bias=True)
        f.add(b + "conv.batch_norm.running_mean", 2 * D), f.add(b + "conv.batch_norm.running_var", 2 * D, around=1.0, scale=0.5)
        f.add(b + "conv.batch_norm.num_batches_tracked", 1), f.add(b + "attn.attention_dists", 4, 4)
    seen = D * (len(cat) + 1)
    f.add("projector.query", 1, 3, 32), f.norm("projector.qformer.layernorm", 32, bias=True), f.lin("projector.linear", 128, 32, True)
    for i in range(2):
        qformer(f, f"projector.qformer.encoder.layer.{i}.", 32, 48, seen)
    text_arrays(f, width=128)
    pre(f, feature_extractor_type="GraniteSpeechFeatureExtractor", sampling_rate=16000)
    f.finish({"architectures": [name], "model_type": "granite_speech", "audio_token_index": 30, "downsample_rate": 5, "window_size": 15, "has_lora_adapter": False,
              "text_config": {"hidden_size": 128, "model_type": "granite", "num_hidden_layers": 1, "num_attention_heads": 4},
              "encoder_config": {"context_size": 200, "conv_expansion_factor": 2, "conv_kernel_size": 15, "dim_head": 16, "feedforward_mult": 4, "hidden_dim": D,
                                 "input_dim": 20, "max_pos_emb": 16, "model_type": "granite_speech_encoder", "num_heads": 4, "num_layers": 3, "output_dim": 32,
                                 **({"cat_hidden_layers": cat} if cat else {})},
              "projector_config": {"encoder_hidden_size": seen, "hidden_size": 32, "intermediate_size": 48, "model_type": "blip_2_qformer",
                                   "num_attention_heads": 4, "num_hidden_layers": 2, "cross_attention_frequency": 1}})


@folder
def granite_speech(f):
    granite_speech_folder(f, "GraniteSpeechForConditionalGeneration", [])


@folder
def granite_speech_plus(f):
    granite_speech_folder(f, "GraniteSpeechPlusForConditionalGeneration", [1])


@folder
def granite4_vision(f, D=64):
    siglip(f, "model.vision_tower.vision_model.", D, 96, 4, 16, 16)
    for kind, n in (("layerwise", 2), ("spatial", 2)):
        for i in range(n):
            p = f"model.{kind}_projectors.{i}."
            f.add(p + "query", 1, 4, D), f.add(p + "image_positions", 1, 16, D), f.norm(p + "norm", D, bias=True), f.norm(p + "qformer.layernorm", D, bias=True)
            qformer(f, p + "qformer.encoder.layer.0.", D, 96, D), f.lin(p + "out_linear", 128, D, True)
    f.add("model.image_newline", 128), text_arrays(f, "model.language_model.", 128), f.lin("lm_head", 40, 128)
    pre(f, image_mean=MEAN, image_std=STD, image_processor_type="LlavaNextImageProcessor", size={"height": 384, "width": 384})
    f.finish({"architectures": ["Granite4VisionForConditionalGeneration"], "model_type": "granite4_vision", "deepstack_layer_map": [[-1, 0], [1, 5]],
              "downsample_rate": "4/8", "image_grid_pinpoints": [[384, 768], [768, 384], [1152, 384]], "spatial_target_layers": [3, 4], "spatial_vision_layer": -2,
              "use_image_newline_parameter": True,
              "text_config": {"hidden_size": 128, "model_type": "granitemoehybrid", "num_hidden_layers": 6, "num_attention_heads": 4},
              "vision_config": {"hidden_size": D, "image_size": 384, "intermediate_size": 96, "layer_norm_eps": 1e-06, "model_type": "siglip_vision_model",
                                "num_attention_heads": 4, "num_hidden_layers": 4, "patch_size": 16}})


@folder
def lfm2_audio(f, D=64):
    p = "conformer.pre_encode."
    for i, inp in ((0, 1), (2, 1), (3, 16), (5, 1), (6, 16)):
        side = 3 if i in (0, 2, 5) else 1
        f.add(f"{p}conv.{i}.weight", 16, inp, side, side), f.add(f"{p}conv.{i}.bias", 16)
    f.lin(p + "out", D, 32, True)
    for i in range(7):
        b = f"conformer.layers.{i}."
        for part in ("feed_forward1", "feed_forward2"):
            f.norm(f"{b}norm_{part}", D, bias=True), f.lin(f"{b}{part}.linear1", 4 * D, D, True), f.lin(f"{b}{part}.linear2", D, 4 * D, True)
        norms(f, b, "norm_conv norm_self_att norm_out", D)
        f.add(b + "conv.pointwise_conv1.weight", 2 * D, D, 1), f.add(b + "conv.pointwise_conv1.bias", 2 * D), f.add(b + "conv.depthwise_conv.weight", D, 1, 9), f.add(b + "conv.depthwise_conv.bias", D)
        f.norm(b + "conv.batch_norm", D, bias=True), f.add(b + "conv.batch_norm.running_mean", D), f.add(b + "conv.batch_norm.running_var", D, around=1.0, scale=0.5)
        f.add(b + "conv.batch_norm.num_batches_tracked", 1), f.add(b + "conv.pointwise_conv2.weight", D, D, 1), f.add(b + "conv.pointwise_conv2.bias", D)
        lins(f, b + "self_attn.", "linear_q linear_k linear_v linear_out", D, D), f.lin(b + "self_attn.linear_pos", D, D)
        f.add(b + "self_attn.pos_bias_u", 4, 16), f.add(b + "self_attn.pos_bias_v", 4, 16)
    f.norm("audio_adapter.model.0", D, bias=True), f.lin("audio_adapter.model.1", 96, D, True), f.lin("audio_adapter.model.3", 128, 96, True)
    f.add("audio_embedding.embedding.weight", 24, 128), f.norm("audio_embedding.embedding_norm", 128), f.lin("audio_embedding.to_logits", 24, 128)
    f.add("audio_loss_weights", 8), f.add("codebook_offsets", 8), f.lin("depth_linear", 64, 128, True), f.norm("depthformer.layers.0.operator_norm", 64)
    f.lin("depth_embeddings.0.to_logits", 24, 64), text_arrays(f, "lfm.", 128)
    f.finish({"architectures": ["Lfm2AudioForConditionalGeneration"], "codebooks": 8, "tie_audio_embeddings": False, "semantic_codebook_factor": 100,
              "sample_rate": 24000, "preprocessor": {"features": 16, "sample_rate": 16000, "normalize": "per_feature"},
              "encoder": {"feat_in": 16, "feat_out": -1, "n_layers": 7, "d_model": D, "subsampling": "dw_striding", "subsampling_factor": 8,
                          "subsampling_conv_channels": 16, "ff_expansion_factor": 4, "self_attention_model": "rel_pos", "n_heads": 4, "xscaling": False,
                          "untie_biases": True, "conv_kernel_size": 9, "conv_norm_type": "batch_norm"},
              "lfm": {"architectures": ["Lfm2ForCausalLM"], "hidden_size": 128, "model_type": "lfm2", "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 40},
              "depthformer": {"layers": 1, "dim": 64, "tie": True}})


@folder
def deepseek_v4(f, D=64):
    f.lin("vision.patch_embed.proj", D, 588, True), f.norm("vision.norm", D)
    for i in range(3):
        b = f"vision.blocks.{i}."
        norms(f, b, "norm1 norm2", D, bias=False), f.lin(b + "attn.wqkv", 3 * D, D, True), f.lin(b + "attn.wo", D, D, True), f.lin(b + "mlp.w1", 192, D), f.lin(b + "mlp.w2", D, 96)
    f.lin("aligner.w1", 128, 9 * D, True), f.lin("aligner.w2", 128, 128, True)
    add(f, "", "image_newline image_start image_end image_pad", 128)
    f.add("embed.weight", 40, 128), f.lin("layers.0.attn.wq_a", 64, 128), f.norm("norm", 128), f.lin("head", 40, 128)
    f.finish({"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "hidden_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4,
              "vocab_size": 40, "vision_n_layers": 3, "vision_dim": D, "vision_n_heads": 4, "vision_inter_dim": 96, "vision_patch_size": 14,
              "vision_downsample_ratio": 3, "vision_rope_theta": 10000.0, "vision_min_pixels": 65536, "vision_max_n_token": 384, "vision_max_wh_ratio": 8})


@folder
def dots3_note(f, D=64):
    p = "vision_encoder."
    f.add(p + "patch_embed.proj.weight", D, 3, 14, 14), f.norm(p + "patch_embed.norm", D), f.norm(p + "post_trunk_norm", D)
    for i, routed in enumerate((0, 4, 2)):
        b = f"{p}blocks.{i}."
        f.lin(b + "attn.qkv", 3 * D, D), f.lin(b + "attn.proj", D, D), norms(f, b, "norm_1 norm_2", D, bias=False), norms(f, b + "attn.", "q_norm k_norm", 16, bias=False)
        for x in [f"experts.{n}." for n in range(routed)] or [""]:
            f.lin(f"{b}mlp.{x}fc1", 96, D), f.lin(f"{b}mlp.{x}fc2", D, 96), f.lin(f"{b}mlp.{x}fc3", 96, D)
        if routed:
            f.add(b + "mlp.gate_weight", routed, D), f.add(b + "mlp.router_bias", routed)
    f.norm(p + "adapter.ln_q", 4 * D, bias=True), f.lin(p + "adapter.mlp.0", 4 * D, 4 * D, True), f.lin(p + "adapter.mlp.2", 128, 4 * D, True)
    p = "audio_encoder.dots_encoder.speech_encoder."
    for i in (1, 2, 3):
        f.add(f"{p}conv2d{i}.weight", 16, 1 if i == 1 else 16, 3, 3), f.add(f"{p}conv2d{i}.bias", 16)
    f.lin(p + "conv_out", D, 32), f.norm(p + "layer_norm", D)
    for i in range(3):
        b = f"{p}layers.{i}."
        lins(f, b + "self_attn.", "q_proj v_proj out_proj", D, D), f.lin(b + "self_attn.k_proj", D, D), norms(f, b, "self_attn_layer_norm final_layer_norm", D, bias=False)
        f.lin(b + "fc1", 192, D, True), f.lin(b + "fc2", D, 96, True)
    f.norm("audio_encoder.audio_adapter.proj.0", D, bias=True), f.lin("audio_encoder.audio_adapter.proj.1", 128, D, True), f.lin("audio_encoder.audio_adapter.proj.3", 128, 128, True)
    text_arrays(f, "model.", 128)
    pre(f, vision_config={"image_mean": CLIP["image_mean"], "image_std": CLIP["image_std"], "min_pixels": 3136, "max_pixels": 11289600, "patch_size": 14},
        audio_config={"sampling_rate": 16000})
    f.finish({"architectures": ["Dots3NoteForConditionalGeneration"], "model_type": "dots3_note", "hidden_size": 128, "num_hidden_layers": 1,
              "vision_config": {"adapter_type": "patch_merger", "capacity_factor": 2.0, "embed_dim": D, "hidden_size": 128, "intermediate_size": 96, "num_attention_heads": 4,
                                "num_hidden_layers": 3, "patch_size": 14, "pre_pixel_shuffle": True, "pyramid_num_routed": [-1, 4, 2], "rms_norm_eps": 1e-05,
                                "router_scale": 1.0, "router_scoring_func": "sigmoid", "spatial_merge_size": 2, "temporal_patch_size": 1, "use_bias": False, "use_qk_norm": True},
              "audio_config": {"chunk_seconds": 60, "merge_factor": 1, "rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 10000.0}, "use_causal": False,
                               "use_conv2d_stem": True, "use_rms_norm": True, "use_rope": True,
                               "whisper_config": {**whisper_config("whisper"), "activation_function": "swiglu", "encoder_layers": 3}}})


def nemotron_folder(f, hears):
    D, p = 1280, "vision_model.radio_model.model."
    f.add(p + "patch_generator.cls_token.token", 2, D), f.add(p + "patch_generator.pos_embed", 1, 16, D, around=1.0, scale=0.3), f.lin(p + "patch_generator.embedder", D, 192)
    f.lin(p + "patch_generator.video_embedder", D, 192), f.add("vision_model.radio_model.input_conditioner.norm_mean", 3, 1, 1)
    for i in range(32):
        b = f"{p}blocks.{i}."
        f.lin(b + "attn.qkv", 3, D, True), f.lin(b + "attn.proj", D, 1, True), norms(f, b, "norm1 norm2", D), f.lin(b + "mlp.fc1", 2, D, True), f.lin(b + "mlp.fc2", D, 2, True)
    f.norm("mlp1.0", 64), f.lin("mlp1.1", 48, 64), f.lin("mlp1.3", 128, 48), text_arrays(f, width=128)
    if hears:
        nemotron_hears(f)
    sound = {"sound_config": {"conv_kernel_size": 9, "hidden_size": 64, "intermediate_size": 96, "model_type": "parakeet", "num_attention_heads": 4, "num_hidden_layers": 2,
                              "num_mel_bins": 16, "projection_hidden_size": 96, "subsampling_conv_channels": 16, "subsampling_factor": 8}} if hears else {}
    f.finish({"architectures": ["NemotronH_Nano_VL_V2"], "model_type": "NemotronH_Nano_VL_V2", "downsample_ratio": 0.5, "force_image_size": 40, "patch_size": 8,
              "llm_config": {"architectures": ["NemotronHForCausalLM"], "hidden_size": 128, "model_type": "nemotron_h", "num_hidden_layers": 1}, **sound,
              "vision_config": {"architectures": ["RADIOModel"], "model_type": "", "patch_size": 8, "preferred_resolution": [768, 768], "version": "radio_v2.5-h"}})


def nemotron_hears(f, D=64):
    p = "sound_encoder.encoder."
    for i, inp in ((0, 1), (2, 1), (3, 16), (5, 1), (6, 16)):
        side = 3 if i in (0, 2, 5) else 1
        f.add(f"{p}subsampling.layers.{i}.weight", 16, inp, side, side), f.add(f"{p}subsampling.layers.{i}.bias", 16)
    f.lin(p + "subsampling.linear", D, 32, True)
    for i in range(2):
        b = f"{p}layers.{i}."
        for part in ("feed_forward1", "feed_forward2"):
            f.norm(f"{b}norm_{part}", D, bias=True), f.lin(f"{b}{part}.linear1", 96, D), f.lin(f"{b}{part}.linear2", D, 96)
        norms(f, b, "norm_conv norm_self_att norm_out", D)
        f.add(b + "conv.pointwise_conv1.weight", 2 * D, D, 1), f.add(b + "conv.depthwise_conv.weight", D, 1, 9), f.add(b + "conv.pointwise_conv2.weight", D, D, 1)
        f.norm(b + "conv.norm", D, bias=True), f.add(b + "conv.norm.running_mean", D), f.add(b + "conv.norm.running_var", D, around=1.0, scale=0.5), f.add(b + "conv.norm.num_batches_tracked", 1)
        lins(f, b + "self_attn.", "q_proj k_proj v_proj o_proj relative_k_proj", D, D, False), f.add(b + "self_attn.bias_u", 4, 16), f.add(b + "self_attn.bias_v", 4, 16)
    f.norm("sound_projection.norm", D), f.lin("sound_projection.linear1", 96, D), f.lin("sound_projection.linear2", 128, 96)


@folder
def nemotron_vl(f):
    nemotron_folder(f, False)


@folder
def nemotron_omni(f):
    nemotron_folder(f, True)


@folder
def mimo_v2(f, D=64):
    p = "visual."
    visual(f, p, D, 4, 14, (("gate_proj", 96, D), ("up_proj", 96, D), ("down_proj", D, 96)), (("mlp.0", 256, 256), ("mlp.2", 128, 256)))
    for i in range(4):
        b = f"{p}blocks.{i}."
        f.lin(b + "attn.qkv", 8 * 16, D, True), norms(f, b, "norm1 norm2", D, bias=False), f.add(b + "attn.sinks", 4)
    f.norm(p + "merger.ln_q", D, bias=True)
    for i in range(3):
        f.add(f"speech_embeddings.{i}.weight", 12, 32)
    for i in range(2):
        b = f"audio_encoder.input_local_transformer.layers.{i}."
        lins(f, b + "self_attn.", "q_proj k_proj v_proj", 32, 32), f.lin(b + "self_attn.o_proj", 32, 32), norms(f, b, "input_layernorm post_attention_layernorm", 32, bias=False)
        lins(f, b + "mlp.", "gate_proj up_proj", 48, 32, False), f.lin(b + "mlp.down_proj", 32, 48)
    f.norm("audio_encoder.input_local_transformer.norm", 32), f.lin("audio_encoder.projection.mlp.0", 96, 128), f.lin("audio_encoder.projection.mlp.2", 128, 96)
    text_arrays(f, "model.", 128), f.lin("lm_head", 40, 128)
    qwen_pre(f)
    hears = Folder(f.path, "audio_tokenizer", dtype="F32")
    for i, inp in ((1, 16), (2, D)):
        hears.add(f"encoder.conv{i}.weight", D, inp, 3), hears.add(f"encoder.conv{i}.bias", D)
    for i in range(3):
        b = f"encoder.layers.{i}."
        lins(hears, b + "self_attn.", "q_proj v_proj out_proj", D, D), hears.lin(b + "self_attn.k_proj", D, D), norms(hears, b, "self_attn_layer_norm final_layer_norm", D)
        hears.lin(b + "fc1", 96, D, True), hears.lin(b + "fc2", D, 96, True)
    hears.norm("encoder.layer_norm", D, bias=True), hears.add("encoder.down_sample_layer.0.weight", D, D, 2), hears.norm("encoder.down_sample_norm", D, bias=True)
    for i, bins in enumerate((12, 12, 6, 4)):
        b = f"encoder.quantizer.vq.layers.{i}._codebook."
        hears.add(b + "embed", bins, D), hears.add(b + "embed_avg", bins, D), hears.add(b + "cluster_size", bins), hears.add(b + "inited", 1)
    hears.lin("decoder.layers.0.fc1", 96, D)
    hears.finish({"activation_function": "gelu", "d_model": D, "encoder_attention_heads": 4, "encoder_attn_window_size": [128, 128], "encoder_causal": False,
                  "encoder_ffn_dim": 96, "encoder_layers": 3, "encoder_skip_layer_id": 1, "hybrid_attention": True, "swa_per_block": 2, "kernel_size": 3,
                  "model_type": "mimo_audio_tokenizer", "n_mels": 16, "num_quantizers": 4, "codebook_size": [12, 12, 6, 4], "avg_pooler": 2, "stride_size": 2})
    f.finish({"architectures": ["MiMoV2ForCausalLM"], "model_type": "mimo_v2", "hidden_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 40,
              "audio_config": {"audio_channels": 3, "group_size": 4, "input_local_dim": 32, "input_local_layers": 2, "input_full_attention": True,
                               "out_hidden_size": 128, "speech_vocab_size": "12-12-12", "projection_layers": 2},
              "vision_config": {"depth": 4, "fullatt_block_indexes": [0, 3], "hidden_act": "silu", "hidden_size": D, "in_chans": 3, "intermediate_size": 96,
                                "num_heads": 4, "num_key_value_heads": 2, "num_query_groups": 2, "out_hidden_size": 128, "patch_size": 14, "qk_channels": 16, "spatial_merge_size": 2,
                                "temporal_patch_size": 2, "use_sink": True, "visual_token_window_size": 64, "vit_window_attn_types": [-1, 0, 1, -1],
                                "window_size": 112, "model_type": "mimo_vl"}})


@folder
def qwen3_tts(f, D=64):
    p = "speaker_encoder."
    f.add(p + "blocks.0.conv.weight", 16, 8, 5), f.add(p + "blocks.0.conv.bias", 16)
    for i in (1, 2, 3):
        b = f"{p}blocks.{i}."
        for name, out, inp, w in (("tdnn1.conv", 16, 16, 1), ("tdnn2.conv", 16, 16, 1), ("se_block.conv1", 8, 16, 1), ("se_block.conv2", 16, 8, 1)):
            f.add(f"{b}{name}.weight", out, inp, w), f.add(f"{b}{name}.bias", out)
        for k in range(3):
            f.add(f"{b}res2net_block.blocks.{k}.conv.weight", 4, 4, 3), f.add(f"{b}res2net_block.blocks.{k}.conv.bias", 4)
    for name, out, inp in (("mfa.conv", 48, 48), ("asp.tdnn.conv", 8, 144), ("asp.conv", 48, 8), ("fc", 128, 96)):
        f.add(f"{p}{name}.weight", out, inp, 1), f.add(f"{p}{name}.bias", out)
    p = "talker.code_predictor."
    for i in range(2):
        b = f"{p}model.layers.{i}."
        lins(f, b + "self_attn.", "q_proj k_proj v_proj o_proj", D, D, False), norms(f, b + "self_attn.", "q_norm k_norm", 16, bias=False)
        lins(f, b + "mlp.", "gate_proj up_proj", 96, D, False), f.lin(b + "mlp.down_proj", D, 96), norms(f, b, "input_layernorm post_attention_layernorm", D, bias=False)
    f.norm(p + "model.norm", D), f.lin(p + "small_to_mtp_projection", D, 128, True), f.add("talker.model.codec_embedding.weight", 12, 128)
    for i in range(15):
        f.add(f"{p}model.codec_embedding.{i}.weight", 10, 128), f.add(f"{p}lm_head.{i}.weight", 10, D)
    f.add("talker.model.text_embedding.weight", 40, 64), f.lin("talker.model.layers.0.self_attn.q_proj", 128, 128)
    qwen3_tts_speaks(Folder(f.path, "speech_tokenizer", dtype="F32"))
    f.finish({"architectures": ["Qwen3TTSForConditionalGeneration"], "model_type": "qwen3_tts", "tts_model_type": "base",
              "speaker_encoder_config": {"enc_dim": 128, "sample_rate": 24000},
              "talker_config": {"hidden_size": 128, "num_hidden_layers": 1, "num_code_groups": 16, "model_type": "qwen3_tts_talker", "vocab_size": 12,
                                "code_predictor_config": {"hidden_size": D, "intermediate_size": 96, "num_attention_heads": 4, "num_hidden_layers": 2,
                                                          "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "vocab_size": 10, "model_type": "qwen3_tts_talker_code_predictor"}}})


def qwen3_tts_speaks(f):
    """code2wav: from codes to a wave"""
    p = "decoder."

    def conv(name, out, inp, width, bias=True):
        f.add(f"{p}{name}.weight", out, inp, width)
        if bias:
            f.add(f"{p}{name}.bias", out)

    for kind, n in (("rvq_first", 1), ("rvq_rest", 15)):
        conv(f"quantizer.{kind}.input_proj", 8, 16, 1, False), conv(f"quantizer.{kind}.output_proj", 16, 8, 1, False)
        for i in range(n):
            b = f"{p}quantizer.{kind}.vq.layers.{i}._codebook."
            f.add(b + "embedding_sum", 6, 8), f.add(b + "cluster_usage", 6, around=1.0, scale=0.5), f.add(b + "initialized", 1)
    conv("pre_conv.conv", 32, 16, 3), f.lin(p + "pre_transformer.input_proj", 24, 32, True), f.lin(p + "pre_transformer.output_proj", 32, 24, True), f.norm(p + "pre_transformer.norm", 24)
    for i in range(2):
        b = f"{p}pre_transformer.layers.{i}."
        lins(f, b + "self_attn.", "q_proj k_proj v_proj o_proj", 24, 24, False), norms(f, b, "input_layernorm post_attention_layernorm", 24, bias=False)
        lins(f, b + "mlp.", "gate_proj up_proj", 32, 24, False), f.lin(b + "mlp.down_proj", 24, 32), add(f, b, "self_attn_layer_scale.scale mlp_layer_scale.scale", 24)
    for i in range(2):
        b = f"upsample.{i}."
        conv(b + "0.conv", 32, 32, 2), conv(b + "1.dwconv.conv", 32, 1, 7), f.norm(p + b + "1.norm", 32, bias=True)
        f.lin(p + b + "1.pwconv1", 64, 32, True), f.lin(p + b + "1.pwconv2", 32, 64, True), f.add(p + b + "1.gamma", 32)
    conv("decoder.0.conv", 16, 32, 7)
    for i in (1, 2, 3, 4):
        b, inp, out = f"decoder.{i}.block.", 32 >> i, 16 >> i
        add(f, p + b, "0.alpha 0.beta", inp, scale=0.5), f.add(f"{p}{b}1.conv.weight", inp, out, 4), f.add(f"{p}{b}1.conv.bias", out)
        for k in (2, 3, 4):
            add(f, f"{p}{b}{k}.", "act1.alpha act1.beta act2.alpha act2.beta", out, scale=0.5), conv(f"{b}{k}.conv1.conv", out, out, 7), conv(f"{b}{k}.conv2.conv", out, out, 1)
    add(f, p + "decoder.5.", "alpha beta", 1, scale=0.5), conv("decoder.6.conv", 1, 1, 7), f.lin("encoder.layers.0.fc1", 8, 8)
    f.finish({"model_type": "qwen3_tts_tokenizer_12hz", "output_sample_rate": 24000,
              "decoder_config": {"codebook_size": 6, "hidden_size": 24, "num_hidden_layers": 2, "num_quantizers": 16, "upsample_rates": [8, 5, 4, 3], "upsampling_ratios": [2, 2]}})


def main():
    chosen = sys.argv[3:] or FOLDERS
    for name in chosen:
        FOLDERS[name](Folder(sys.argv[2], name))
    print("\n".join(chosen))


if __name__ == "__main__":
    main()
