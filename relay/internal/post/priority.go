package post

// The ends of the native priority scale.
const (
	MinPriority = -2
	MaxPriority = 2
)
