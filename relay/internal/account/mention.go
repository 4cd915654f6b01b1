package account

import (
	"fmt"
	"slices"
	"strings"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

// MentionAuto mentions the owner from priority 1 on and the room as well from 2 on.
const MentionAuto = "auto"

const maxMentions = 20

func setMention(row *store.Application, whom *string) (err error) {
	if whom != nil {
		row.Mention, err = checkMention(*whom)
	}
	return err
}

// checkMention checks and normalizes a mention: auto, room, owner, none, or Matrix IDs separated by commas or spaces.
func checkMention(whom string) (string, error) {
	whom = strings.TrimSpace(whom)
	if whom == "" {
		return MentionAuto, nil
	}
	if slices.Contains([]string{MentionAuto, "room", "owner", "none"}, whom) {
		return whom, nil
	}
	ids := listOf(whom)
	if len(ids) > maxMentions {
		return "", refusal.Invalid("mention", fmt.Sprintf("At most %d people can be mentioned.", maxMentions))
	}
	for _, id := range ids {
		if len(id) > maxMatrixID || !matrixID.MatchString(id) {
			return "", refusal.Invalid("mention", "The choices are auto, room, owner, none, or Matrix IDs such as @name:server.")
		}
	}
	return strings.Join(slices.Compact(ids), " "), nil
}

// Unheard reports whether messages of priority 2 alert nobody in the application's room: the bot may not notify the room
// there, and the owner, who would be mentioned, is not in it.
func (a Application) Unheard() bool {
	if a.RoomCheckedAt.IsZero() || a.RoomProblem != "" {
		return false
	}
	owner := a.OwnerMatrixID != "" && !a.OwnerAbsent
	switch a.Mention {
	case MentionAuto, "room":
		return !a.RoomNotifies && !owner
	case "owner":
		return !owner
	}
	return false // nobody is mentioned, or people named by their Matrix IDs
}
