/* Completeness of GGUF files that are not run: projectors, draft models, audio decoders. Rows of arch/ say which
 * tensors such files have. */
#pragma once

#include "arch/arch.h"
#include "gguf/facts.h"
#include "gguf/model.h"

/* Checks a projector: numbers that no reader takes are an error; tensors that other blocks or its kind have are
 * a doubt. */
bool unrun_check_projector(const model_source *g, const model_facts *facts, warning_list *doubts,
                           gq_error *e);
/* Checks that the tensors which a row's shapes name are there; one that is needed is an error. */
bool unrun_check_shapes(const model_source *g, const architecture *row, const model_facts *facts,
                        warning_list *doubts, gq_error *e);
