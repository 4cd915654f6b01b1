package web

import (
	"fmt"
	"time"

	"slipway/relay/internal/service"
	ui "slipway/shared/web"
)

// Dimensions of the picture, in its own units.
const (
	chartWidth  = 720
	chartHeight = 168
	chartTop    = 12
	chartBase   = 140
	chartLeft   = 64 // for the labels of the lines, next to the columns
	chartRight  = 4
)

// chart is a bar chart of a day: one column per hour, with dead messages on top of sent ones.
type chart struct {
	Width, Height, Base int
	Columns             []column
	Lines               []gridLine
	Summary             string
}

type column struct {
	X, Width          int
	SentY, SentHeight int
	DeadY, DeadHeight int
	Label, Text       string
	Sent, Dead        int64
	LabelX            int
}

type gridLine struct {
	Y     int
	Label string
}

func newChart(hours []service.Hour, now time.Time) chart {
	c := chart{Width: chartWidth, Height: chartHeight, Base: chartBase}
	top, total, given := int64(0), int64(0), int64(0)
	for _, h := range hours {
		top = max(top, h.Sent+h.Dead)
		total, given = total+h.Sent, given+h.Dead
	}
	if top > 0 {
		top = roundUp(top)
	}
	for _, n := range []int64{top / 2, top} {
		if n > 0 {
			c.Lines = append(c.Lines, gridLine{Y: chartBase - scale(n, top), Label: ui.Count(n)})
		}
	}
	step := (chartWidth - chartLeft - chartRight) / max(len(hours), 1)
	for i, h := range hours {
		c.Columns = append(c.Columns, newColumn(h, chartLeft+i*step, step, top, i, len(hours), now))
	}
	c.Summary = fmt.Sprintf("Deliveries of the last 24 hours: %s sent, %s dead.", ui.Count(total), ui.Count(given))
	return c
}

func newColumn(h service.Hour, x, step int, top int64, i, n int, now time.Time) column {
	sent, dead := scale(h.Sent, top), scale(h.Dead, top)
	if dead > 0 {
		dead = max(2, scale(h.Sent+h.Dead, top)-sent) // two heights rounded each would leave a gap
	}
	col := column{
		X: x + 3, Width: step - 6, SentY: chartBase - sent, SentHeight: sent, DeadY: chartBase - sent - dead, DeadHeight: dead,
		Sent: h.Sent, Dead: h.Dead, LabelX: x + step/2,
		Text: fmt.Sprintf("%s–%s UTC: %s sent, %s dead", h.Start.UTC().Format("15:04"), h.Start.UTC().Add(time.Hour).Format("15:04"), ui.Count(h.Sent), ui.Count(h.Dead)),
	}
	switch back := n - 1 - i; {
	case back == 0:
		col.Label = "now"
	case back%6 == 0:
		col.Label = fmt.Sprintf("−%d h", back)
	}
	return col
}

// scale returns the height of a number; anything above 0 is visible.
func scale(n, top int64) int {
	if n == 0 || top == 0 {
		return 0
	}
	return max(2, int(n*(chartBase-chartTop)/top))
}

// roundUp returns the smallest 2, 4, 6, 8 or 10 times a power of ten that is at least n, so that half of it is whole.
func roundUp(n int64) int64 {
	unit := int64(1)
	for n > 10*unit {
		unit *= 10
	}
	for _, step := range []int64{2, 4, 6, 8, 10} {
		if n <= step*unit {
			return step * unit
		}
	}
	return 10 * unit
}
