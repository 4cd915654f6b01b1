package notify

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// State is how an endpoint fares.
type State struct {
	Failures int       `json:"failures"`          // in a row
	Since    time.Time `json:"since,omitzero"`    // of the first of them
	At       time.Time `json:"at,omitzero"`       // of the last
	Status   int       `json:"status,omitempty"`  // of the last answer, 0 without one
	Error    string    `json:"error,omitempty"`   // of the last
	Next     time.Time `json:"next,omitzero"`     // the next try
	LastSent time.Time `json:"lastSent,omitzero"` // the last success that was written down
	Dropped  int       `json:"dropped,omitempty"` // events that were never taken, since the queue was made
}

const stateName = "state.json"

// writeState writes the state beside the queue, for `registry events`. It may be
// lost with the power.
func writeState(dir string, s State) error {
	content, err := json.Marshal(s)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, stateName)
	if err := os.WriteFile(path+".tmp", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// readState reads it. Where there is none, all is well.
func readState(dir string) (State, error) {
	var s State
	content, err := os.ReadFile(filepath.Join(dir, stateName))
	if err != nil {
		return s, ignoreAbsent(err)
	}
	_ = json.Unmarshal(content, &s) // else a crash has torn it
	return s, nil
}
