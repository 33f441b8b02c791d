package pgstore

import (
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
)

// row is a record as captcha_solves has it. In JSON its members are the columns.
type row struct {
	ID        string         `json:"id"`
	Identity  captcha.ID     `json:"identity"`
	Target    string         `json:"target"`
	Owner     string         `json:"owner"`
	Type      captcha.Type   `json:"type"`
	Sitekey   string         `json:"sitekey"`
	Pageurl   string         `json:"pageurl"`
	Provider  string         `json:"provider"`
	Task      string         `json:"task"`
	How       history.How    `json:"how"`
	Status    history.Status `json:"status"`
	Code      string         `json:"code"`
	Placed    time.Time      `json:"placed"`
	Submitted *time.Time     `json:"submitted"`
	Ended     time.Time      `json:"ended"`
	Solved    *time.Time     `json:"solved"`
	Polls     int            `json:"polls"`
	Callback  bool           `json:"callback"`
	Price     int64          `json:"price"`
}

// rowOf is a record's row.
func rowOf(r history.Record) row {
	return row{
		ID: indexable(r.ID), Identity: captcha.ID(storable(string(r.Identity))),
		Target: indexable(r.Target), Owner: indexable(r.Owner), Type: captcha.Type(indexable(string(r.Type))),
		Sitekey: indexable(r.Sitekey), Pageurl: storable(r.Pageurl),
		Provider: storable(r.Provider), Task: storable(r.Task), How: history.How(storable(string(r.How))),
		Status: r.Status(), Code: storable(r.Code),
		Placed: r.Placed, Submitted: unlessZero(r.Submitted), Ended: r.Ended, Solved: unlessZero(r.Solved),
		Polls: r.Polls, Callback: r.Callback, Price: r.Price,
	}
}

// record is the row's record.
func (w *row) record() history.Record {
	return history.Record{
		ID: w.ID, Identity: w.Identity, Target: w.Target, Owner: w.Owner, Type: w.Type, Sitekey: w.Sitekey, Pageurl: w.Pageurl,
		Provider: w.Provider, Task: w.Task, How: w.How, Code: w.Code,
		Placed: w.Placed.UTC(), Submitted: orZero(w.Submitted), Ended: w.Ended.UTC(), Solved: orZero(w.Solved),
		Polls: w.Polls, Callback: w.Callback, Price: w.Price,
	}
}

// unlessZero is nil for the zero time, as null says that there is none.
func unlessZero(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

func orZero(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.UTC()
}
