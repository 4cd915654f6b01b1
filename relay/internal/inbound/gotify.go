package inbound

// GotifyPriority translates a priority of Gotify's scale, whose clients mean 1 to 3 as low, 4 to 7 as normal, 8 and 9 as
// high and more as the highest, to −2 … 2. nil stays nil.
func GotifyPriority(given *int) *int {
	if given == nil {
		return nil
	}
	p := 2
	switch g := *given; {
	case g == 0:
		p = 0
	case g <= 3:
		p = -1
	case g <= 7:
		p = 0
	case g <= 9:
		p = 1
	}
	return &p
}
