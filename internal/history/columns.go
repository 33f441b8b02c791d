package history

// Column is a stored field of a record or of an entry. Field points to a string, a time.Time, an int,
// an int64 or a bool. A store reads and writes the field through this pointer.
type Column struct {
	Name  string
	Field any
}

// Columns lists the stored fields. Package redisstore stores the columns from "identity" to "price" without names, so
// their order is part of its format.
func (r *Record) Columns() []Column {
	return []Column{
		{"id", &r.ID}, {"ended", &r.Ended},
		{"identity", (*string)(&r.Identity)}, {"target", &r.Target}, {"owner", &r.Owner}, {"type", (*string)(&r.Type)},
		{"sitekey", &r.Sitekey}, {"pageurl", &r.Pageurl}, {"provider", &r.Provider}, {"task", &r.Task},
		{"how", (*string)(&r.How)}, {"code", &r.Code},
		{"placed", &r.Placed}, {"submitted", &r.Submitted}, {"solved", &r.Solved},
		{"polls", &r.Polls}, {"callback", &r.Callback}, {"price", &r.Price}, {"choice", &r.Choice},
	}
}

// Columns lists the stored fields. Package redisstore stores the columns after "key" without names, so their order is
// part of its format.
func (e *Entry) Columns() []Column {
	return []Column{
		{"id", &e.ID}, {"at", &e.At}, {"key", &e.Key},
		{"action", (*string)(&e.Action)}, {"target", &e.Target}, {"token", &e.Token}, {"source", &e.Source}, {"image", &e.Image},
		{"price", &e.Price},
	}
}

// Count is a stored figure. N points to a field of the Figures or KeyFigures.
type Count struct {
	Name string
	N    *int64
}

// Counts lists the stored figures of a day.
func (f *Figures) Counts() []Count {
	return []Count{
		{"solved", &f.Solved}, {"discarded", &f.Discarded}, {"failed", &f.Failed}, {"refused", &f.Refused}, {"lost", &f.Lost},
		{"elapsed_ms", &f.ElapsedMS}, {"spent", &f.Spent}, {"unpriced", &f.Unpriced},
	}
}

// Counts lists the stored figures of a key's day.
func (f *KeyFigures) Counts() []Count {
	return []Count{
		{"handed_out", &f.HandedOut}, {"bought", &f.Bought}, {"accepted", &f.Accepted}, {"rejected", &f.Rejected},
		{"spent", &f.Spent}, {"unpriced", &f.Unpriced},
	}
}

// addCounts adds the counts to the sums. Both lists must have the same names in the same order.
func addCounts(sums, counts []Count) {
	for i, c := range counts {
		*sums[i].N += *c.N
	}
}

// Plus returns the sum of f and g.
func (f Figures) Plus(g Figures) Figures {
	addCounts(f.Counts(), g.Counts())
	return f
}

// Plus returns the sum of f and g.
func (f KeyFigures) Plus(g KeyFigures) KeyFigures {
	addCounts(f.Counts(), g.Counts())
	return f
}
