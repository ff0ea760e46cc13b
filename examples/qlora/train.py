# ruff: noqa: INP001 (a program, not a package)
"""QLoRA: fine-tune a causal language model by low-rank adapters over 4-bit weights.

    python train.py --model Qwen/Qwen3-8B --data train.jsonl    # on a GPU; adapters go to $OUTPUT_DIR
    python train.py --smoke                                     # a tiny model made on the spot: no GPU, no download

`train.jsonl` holds one JSON object a line: {"text": "..."}, or {"messages": [{"role": ..., "content": ...}, ...]}.
Prints one JSON object with the losses when it is done.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

import torch
from datasets import load_dataset
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM, set_seed
from trl import SFTConfig, SFTTrainer

RANK = 16
ALPHA = 32
TOLERANCE = 1e-3  # of a loss that is computed twice
TINY = LlamaConfig(
    vocab_size=256,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=128,
)


def main() -> None:
    """Train, and print what came of it."""
    arguments = parse_arguments()
    set_seed(arguments.seed)
    result = smoke(arguments) if arguments.smoke else train(arguments)
    print(json.dumps({"torch": torch.__version__, "device": device_name(), **result}))


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="one quick run of a tiny random model, and nothing kept")
    parser.add_argument("--model", default="Qwen/Qwen3-8B", help="name on the hub, or a folder")
    parser.add_argument("--data", type=Path, help="JSON lines")
    parser.add_argument("--output", type=Path, default=Path(os.environ.get("OUTPUT_DIR", "checkpoints")))
    parser.add_argument("--steps", type=int, default=None, help="default: 200; with --smoke, 3")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=1024, help="tokens of a sequence at most")
    parser.add_argument("--learning-rate", type=float, default=2e-4)
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in --output")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if not arguments.smoke and arguments.data is None:
        parser.error("--data is needed (or --smoke)")
    return arguments


def lora() -> LoraConfig:
    """Adapters on every linear layer, as QLoRA has them."""
    return LoraConfig(r=RANK, lora_alpha=ALPHA, lora_dropout=0.05, target_modules="all-linear", task_type="CAUSAL_LM")


def smoke(arguments: argparse.Namespace) -> dict[str, object]:
    """Train adapters on one fixed batch, save them, and load them again: the loss must be the same then."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = get_peft_model(LlamaForCausalLM(TINY), lora()).to(device)
    model.train()
    tokens = torch.randint(TINY.vocab_size, (2, 32)).to(device)
    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=1e-2)
    losses = []
    for _ in range(3 if arguments.steps is None else arguments.steps):
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    model.eval()
    final = loss_of(model, tokens)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = PeftModel.from_pretrained(model.unload(), folder).to(device)
        again.eval()
        reloaded = loss_of(again, tokens)
    if abs(final - reloaded) > TOLERANCE:
        raise SystemExit(f"the loss was {final} when the adapters were saved, and {reloaded} when they were loaded")
    return {"losses": losses, "final_loss": final, "reloaded_loss": reloaded}


def loss_of(model: torch.nn.Module, tokens: torch.Tensor) -> float:
    """The model's loss on these tokens, without training on them."""
    with torch.no_grad():
        return float(model(input_ids=tokens, labels=tokens).loss)


def train(arguments: argparse.Namespace) -> dict[str, object]:
    """Train on the user's data; checkpoints and the adapters end up in --output."""
    on_gpu = torch.cuda.is_available()
    data = load_dataset("json", data_files=str(arguments.data), split="train")
    model = AutoModelForCausalLM.from_pretrained(
        arguments.model,
        dtype=torch.bfloat16 if on_gpu else torch.float32,
        quantization_config=four_bits() if on_gpu else None,
        device_map={"": 0} if on_gpu else None,
    )
    trainer = SFTTrainer(
        model=model,
        train_dataset=data,
        peft_config=lora(),
        args=SFTConfig(
            output_dir=str(arguments.output),
            max_steps=200 if arguments.steps is None else arguments.steps,
            per_device_train_batch_size=arguments.batch,
            gradient_accumulation_steps=4,
            gradient_checkpointing=on_gpu,
            learning_rate=arguments.learning_rate,
            lr_scheduler_type="cosine",
            max_length=arguments.length,
            logging_steps=1,
            save_steps=50,
            bf16=on_gpu,
            use_cpu=not on_gpu,
            report_to="none",
            seed=arguments.seed,
        ),
    )
    trainer.train(resume_from_checkpoint=arguments.resume or None)
    trainer.save_model()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return {"losses": losses, "adapters": str(arguments.output)}


def four_bits() -> BitsAndBytesConfig:
    """Weights in 4-bit NormalFloat, computed with in bfloat16."""
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )


def device_name() -> str:
    """What it runs on."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


if __name__ == "__main__":
    main()
