package post

import (
	"slices"
	"strings"
)

// The ends of the native priority scale.
const (
	MinPriority = -2
	MaxPriority = 2
)

var priorityWords = []string{"min", "low", "normal", "high", "max"}

// PriorityWord returns the word for a priority: min, low, normal, high or max.
func PriorityWord(p int) string {
	return priorityWords[min(max(p, MinPriority), MaxPriority)-MinPriority]
}

// ParsePriority returns the priority that a word stands for. ok is false for any other text.
func ParsePriority(word string) (p int, ok bool) {
	i := slices.Index(priorityWords, strings.ToLower(strings.TrimSpace(word)))
	return i + MinPriority, i >= 0
}
