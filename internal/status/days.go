package status

import (
	"maps"
	"slices"
)

// DayTotals sums the days of all targets of the document, today first.
func (d *Document) DayTotals() []TargetDay {
	byDate := map[string]TargetDay{}
	for i := range d.Targets {
		for _, day := range d.Targets[i].Days {
			sum := byDate[day.Date]
			byDate[day.Date] = TargetDay{
				Date: day.Date, Requests: sum.Requests + day.Requests, Hits: sum.Hits + day.Hits, Waited: sum.Waited + day.Waited,
				Misses: sum.Misses + day.Misses, Bought: sum.Bought + day.Bought, Solved: sum.Solved + day.Solved,
				Failed: sum.Failed + day.Failed, Lost: sum.Lost + day.Lost, Expired: sum.Expired + day.Expired,
				Spent: sum.Spent.plus(day.Spent),
			}
		}
	}
	totals := []TargetDay{}
	for _, date := range slices.Backward(slices.Sorted(maps.Keys(byDate))) {
		totals = append(totals, byDate[date])
	}
	return totals
}
