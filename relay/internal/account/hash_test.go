package account

import (
	"strings"
	"testing"
)

func TestUsable(t *testing.T) {
	const salt, key = "c2FsdHNhbHQ", "a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5"
	for hash, want := range map[string]bool{
		"$argon2id$v=19$m=131072,t=4,p=4$" + salt + "$" + key:                      true, // PushBits' defaults
		"$argon2id$v=19$m=19456,t=2,p=1$" + salt + "$" + key:                       true,
		"$argon2id$v=19$m=4194304,t=4,p=4$" + salt + "$" + key:                     false, // 4 GiB
		"$argon2id$v=19$m=131072,t=4000000000,p=4$" + salt + "$" + key:             false,
		"$argon2id$v=19$m=131072,t=0,p=4$" + salt + "$" + key:                      false,
		"$argon2id$v=19$m=131072,t=4,p=0$" + salt + "$" + key:                      false,
		"$argon2id$v=19$m=131072,t=4,p=256$" + salt + "$" + key:                    false,
		"$argon2id$v=16$m=131072,t=4,p=4$" + salt + "$" + key:                      false,
		"$argon2i$v=19$m=131072,t=4,p=4$" + salt + "$" + key:                       false,
		"$argon2id$v=19$m=131072,t=4,p=4$" + salt + "$":                            false,
		"$argon2id$v=19$m=131072,t=4,p=4$!$" + key:                                 false,
		"$argon2id$v=19$m=131072,t=4,p=4$" + salt + "$" + strings.Repeat(key, 100): false,
		"$2a$10$abcdefghijklmnopqrstuv":                                            false,
		"":                                                                         false,
	} {
		if got := usable(hash); got != want {
			t.Errorf("%s: %v, want %v", hash, got, want)
		}
	}
}
