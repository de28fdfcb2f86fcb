package trainer

import (
	"fmt"
	"path/filepath"

	"tandem/model"
	"tandem/model/safetensors"
	"tandem/trainer/run"
)

// Export writes the weights of a full state as a Hugging Face directory, with the bits that the run had then. c is the
// config of the run's model, in the dtype of its weights.
func Export(dir *run.Dir, step int, c model.Config, to string, card model.Card) error {
	if err := dir.Whole(step); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	path := filepath.Join(dir.CheckpointPath(step), tensorsFile)
	f, err := safetensors.Open(path)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	defer f.Close()
	return safetensors.Guard(func() error {
		for _, t := range f.Tensors {
			if t.Name == masterTensor && t.DType == safetensors.F32 {
				return model.SaveMasters(to, c, card, t.Data)
			}
		}
		return fmt.Errorf("export: %s has no masters", path)
	})
}
