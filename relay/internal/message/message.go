// Package message holds the priorities of messages, and what cleans their text.
package message

// The ends of the native priority scale.
const (
	MinPriority = -2
	MaxPriority = 2
)
