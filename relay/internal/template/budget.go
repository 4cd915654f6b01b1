package template

import (
	"errors"
	"fmt"
)

const (
	maxOutput = 32 << 10 // of an execution

	maxRounds = 2000    // of all ranges of an execution
	maxSteps  = 200_000 // its nodes, those of each round, and items that ranges sort
	maxBytes  = 2 << 20 // that an execution reads and writes

	allSteps = 4 * maxSteps // of all executions of a request
	allBytes = 8 * maxBytes
)

// budget bounds the work of the templates of one request.
type budget struct {
	steps, bytes int // of all executions so far
	rounds       int // of this one
	ofSteps      int // how many of steps and bytes
	ofBytes      int // this execution may reach
}

var (
	errOutput = fmt.Errorf("it writes more than %d bytes", maxOutput)
	errRounds = fmt.Errorf("its ranges go round more than %d times", maxRounds)
	errSteps  = errors.New("its ranges take too much work")
	errBytes  = errors.New("it reads or writes too much")
)

// begin begins an execution. nodes is the size of the template.
func (b *budget) begin(nodes int) error {
	b.rounds = 0
	b.ofSteps = min(b.steps+maxSteps, allSteps)
	b.ofBytes = min(b.bytes+maxBytes, allBytes)
	return b.step(nodes)
}

func (b *budget) spend(n int) error {
	if b.bytes += n; b.bytes > b.ofBytes {
		return errBytes
	}
	return nil
}

func (b *budget) step(n int) error {
	if b.steps += n; b.steps > b.ofSteps {
		return errSteps
	}
	return nil
}

// round charges for a round of a range whose body has nodes.
func (b *budget) round(nodes int) (string, error) {
	if b.rounds++; b.rounds > maxRounds {
		return "", errRounds
	}
	return "", b.step(nodes)
}

// items returns what a range goes over. A range sorts an object first, however few rounds it makes.
func (b *budget) items(v any) (any, error) {
	const sort = 8 // times the length
	if m, ok := v.(map[string]any); ok {
		return v, b.step(sort * len(m))
	}
	return v, nil
}

// charge charges for the text of a value.
func (b *budget) charge(v any) error {
	const each = 16 // about the JSON of a number, or what surrounds a text
	if err := b.spend(each); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		return b.spend(len(v))
	case []any:
		for _, item := range v {
			if err := b.charge(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for k, item := range v {
			if err := errors.Join(b.spend(len(k)), b.charge(item)); err != nil {
				return err
			}
		}
	}
	return nil
}

// text returns a value as people read it.
func (b *budget) text(v any) (string, error) {
	if err := b.charge(v); err != nil {
		return "", err
	}
	return textOf(v), nil
}

// result charges for what a function returns.
func (b *budget) result(text string) (string, error) {
	if len(text) > maxOutput {
		return "", errBytes
	}
	return text, b.spend(len(text))
}
