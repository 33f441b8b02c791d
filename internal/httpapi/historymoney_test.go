package httpapi

import (
	"encoding/csv"
	"math"
	"strconv"
	"strings"
	"testing"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/httpapi/historyapi"
	"poold/internal/pool"
)

// An order costs once the service solved it, or may have: the prices of the records in CSV
// add up to what the day and the usage say was spent. An unknown price is never 0.
func TestWhatOrdersCost(t *testing.T) {
	d := start(t, sampleSet(), nil, nil)
	d.keepFor(30)
	var records []history.Record
	for i, how := range []struct {
		how  history.How
		Code string
	}{
		{history.Solved, ""}, {history.Discarded, ""}, {history.Lost, ""}, {history.Failed, pool.CodeTimeout},
		{history.Failed, "ERROR_CAPTCHA_UNSOLVABLE"}, {history.Failed, ""}, {history.Refused, "ERROR_SITEKEY"},
	} {
		// Older versions kept a price of each.
		r := solvedRecord(i+1, "checkout", 0)
		r.How, r.Code = how.how, how.Code
		records = append(records, r)
	}
	free, unknown := solvedRecord(20, "checkout", 0), solvedRecord(21, "checkout", 0)
	free.Price, unknown.Price = 0, pool.PriceUnknown
	picture := solvedRecord(22, "/solve", 0)
	picture.Type, picture.Price = captcha.Image, pool.PriceUnknown
	d.keep(t, append(records, free, unknown, picture)...)

	column := func(path, name string) (cells []string) {
		rows, err := csv.NewReader(strings.NewReader(d.ask(t, "GET", path, "Accept: text/csv").body)).ReadAll()
		if err != nil || len(rows) < 2 {
			t.Fatalf("%s: %q, %v", path, rows, err)
		}
		for _, row := range rows[1:] {
			for i, head := range rows[0] {
				if head == name {
					cells = append(cells, row[i])
				}
			}
		}
		return cells
	}
	sum, unpriced := 0.0, 0
	for _, status := range []string{"solved", "error"} {
		for _, cell := range column("/history/tasks?status="+status, "price") {
			if cell == "" {
				unpriced++
				continue
			}
			price, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				t.Error(err)
			}
			sum += price
		}
	}
	if math.Abs(sum-4*0.00299) > 1e-12 || unpriced != 2 {
		t.Errorf("the records cost %v, and %d an unknown price", sum, unpriced)
	}
	day := decoded[historyapi.Day](t, d.ask(t, "GET", "/history/day/2026-01-02"))
	for _, of := range day.Types {
		switch spent := of.Spent; {
		case of.Type == "image" && (spent.Known() || of.Unpriced != 1):
			t.Errorf("images cost %v, %d of them an unknown price", spent, of.Unpriced)
		case of.Type == "recaptcha_v2" && (math.Abs(float64(spent)-sum) > 1e-12 || of.Unpriced != 1):
			t.Errorf("the day cost %v, %d of it an unknown price, the records %v", spent, of.Unpriced, sum)
		}
	}
	usage := decoded[historyapi.Usage](t, d.ask(t, "GET", "/history/usage?by=target&from=2026-01-02&to=2026-01-03"))
	for _, line := range usage.Lines {
		if known := line.Spent.Known(); known != (line.Target == "checkout") || known && math.Abs(float64(line.Spent)-sum) > 1e-12 {
			t.Errorf("usage of %s is %v", line.Target, line.Spent)
		}
	}
	if got := column("/history/usage?by=target&from=2026-01-02&to=2026-01-03", "spent"); len(got) != 2 || got[0] != "" {
		t.Errorf("usage in CSV %q", got)
	}
	for _, want := range []string{`"price":null`, `"spent":null,"unpriced":1`} {
		if a := d.ask(t, "GET", "/history/tasks?status=solved").body + d.ask(t, "GET", "/history/day/2026-01-02").body; !strings.Contains(a, want) {
			t.Errorf("no %s", want)
		}
	}
}
