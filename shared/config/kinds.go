package config

// Dead is the type of a key that only a part without successor had: giving it
// is harmless and answered with a warning.
type Dead struct{}

// Refused is the type of a key that is known and will not be supported: giving
// it is an error with the reason of its "why" tag.
type Refused struct{}

// Moved is the type of a key that has another name now: its value is used for
// the path of its "to" tag unless that one is given as well.
type Moved struct{}
