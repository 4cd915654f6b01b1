package account

// Unheard reports whether messages of priority 2 alert nobody in the application's room: the bot may not notify the room
// there, and the owner, who would be mentioned, is not in it.
func (a Application) Unheard() bool {
	if a.RoomCheckedAt.IsZero() || a.RoomProblem != "" {
		return false
	}
	owner := a.OwnerMatrixID != "" && !a.OwnerAbsent
	switch a.Mention {
	case mentionAuto, "room":
		return !a.RoomNotifies && !owner
	case "owner":
		return !owner
	}
	return false // nobody is mentioned, or people named by their Matrix IDs
}
