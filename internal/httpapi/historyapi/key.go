package historyapi

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"poold/internal/history"
	"poold/internal/httpapi/kernel"
	"poold/internal/status"
	"poold/internal/targets"
)

// Audit reads the audit, which records which key took which token. An Audit has the reading methods
// of history.Audit.
type Audit interface {
	Entries(ctx context.Context, key string, q history.Query) (history.Entries, error)
	KeyDay(ctx context.Context, day time.Time) (map[string]history.KeyFigures, error)
}

// keyName matches the name of a key, and also history.Keyless, which stands for calls without a key.
var keyName = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._@-]{0,62}|` + history.Keyless + `)$`)

// Key is GET /history/key/{name}: the actions of a key on tokens. The configuration file may lack
// the key's name, because the key may come from an earlier file.
func (h *Routes) Key(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	name := c.Param(r, 0)
	if !keyName.MatchString(name) {
		return kernel.NewProblem(kernel.CodeBadRequest, "a key's name is 1 to 63 letters, digits, ., _, @ and -, beginning with a letter or digit; "+
			history.Keyless+" stands for calls without a key")
	}
	asked, err := readPageQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	if h.Audit == nil {
		return h.errNoAudit()
	}
	found, err := find(r, c, asked.Query, func(ctx context.Context, q history.Query) (history.Entries, error) {
		return h.Audit.Entries(ctx, name, q)
	})
	if err != nil {
		return err
	}
	list := AuditList{Currency: c.Access.Set.Currency}
	list.Entries, list.Next = convertPage(w, asked, found.List, found.More, auditEntry, func(e *history.Entry) history.Position {
		return history.Position{Ended: e.At, ID: e.ID}
	})
	return respondTable(w, r, list, list.Entries)
}

// usageByKey is GET /history/usage?by=key: the figures of keys on some UTC days.
func (h *Routes) usageByKey(w http.ResponseWriter, r *http.Request, c *kernel.Call, asked usageQuery) error {
	if c.Caller.Globs != nil {
		return kernel.NewProblem(kernel.CodeForbidden, "the figures by key cover all targets, and this key is limited to some; use by=target")
	}
	if h.Audit == nil {
		return h.errNoAudit()
	}
	first, last, err := asked.days(time.Now(), c.Access.Set.History.Audit, "audit (history.audit)")
	if err != nil {
		return err
	}
	answer := KeyUsage{By: byKey, First: first.Format(time.DateOnly), Last: last.Format(time.DateOnly), Lines: []KeyUsageLine{}, Currency: c.Access.Set.Currency}
	sums := map[[2]string]history.KeyFigures{} // by date ("" = all days) and key
	err = readDays(r, first, last, h.Audit.KeyDay, func(date string, figures map[string]history.KeyFigures) {
		if !asked.perDay {
			date = ""
		}
		for key, f := range figures {
			of := [2]string{date, key}
			sums[of] = sums[of].Plus(f)
		}
	})
	if err != nil {
		return err
	}
	for of, f := range sums {
		answer.Lines = append(answer.Lines, KeyUsageLine{
			Date: of[0], Key: of[1], HandedOut: f.HandedOut, Accepted: f.Accepted, Rejected: f.Rejected, Bought: f.Bought,
			Spent: spentOf(f.Spent, f.Unpriced), Unpriced: f.Unpriced,
		})
	}
	slices.SortFunc(answer.Lines, func(a, b KeyUsageLine) int {
		return cmp.Or(strings.Compare(a.Date, b.Date), strings.Compare(a.Key, b.Key))
	})
	return respondTable(w, r, answer, answer.Lines)
}

// errNoAudit returns the problem for a request to the audit if no audit is kept.
func (h *Routes) errNoAudit() *kernel.Problem {
	if h.Store == nil {
		return errNoHistory()
	}
	return kernel.NewProblem(kernel.CodeNoAudit, "no audit is kept: the configuration file has `history: {audit: 0s}`")
}

// AuditList is the response of GET /history/key.
type AuditList struct {
	Entries  []AuditEntry     `json:"entries"`            // newest first; never null
	Next     string           `json:"next,omitempty"`     // cursor of the next page; absent on the last page
	Currency targets.Currency `json:"currency,omitempty"` // currency of the configuration file; absent = the file names none
}

// AuditEntry is one action of a key on a token.
type AuditEntry struct {
	ID      string       `json:"id"`
	At      string       `json:"at"`     // RFC 3339, UTC
	Key     string       `json:"key"`    // name of the key; "-" = no key
	Action  string       `json:"action"` // taken | bought (bought for this call and taken) | accepted | rejected
	Target  string       `json:"target"` // name of the target; "/solve" = no target has the identity
	TokenID string       `json:"token_id"`
	Source  string       `json:"source"` // source in the response with the token; "" for a report
	Image   string       `json:"image"`  // "sha256:…, n bytes": the picture that the token solves; "" = none
	Price   status.Money `json:"price"`  // price of a bought token, as in Record; otherwise 0
}

// KeyUsageLine contains the figures of a key.
type KeyUsageLine struct {
	Date      string       `json:"date"` // "" = all days together
	Key       string       `json:"key"`  // name; "-" = no key
	HandedOut int64        `json:"handed_out"`
	Accepted  int64        `json:"accepted"` // reports of acceptance
	Rejected  int64        `json:"rejected"`
	Bought    int64        `json:"bought"`   // tokens bought for calls of the key; HandedOut includes them
	Spent     status.Money `json:"spent"`    // sum of the known prices of the bought tokens; null = all are unknown
	Unpriced  int64        `json:"unpriced"` // tokens bought at an unknown price
}

func auditEntry(e *history.Entry) AuditEntry {
	return AuditEntry{
		ID: e.ID, At: kernel.Stamp(e.At), Key: e.Key, Action: string(e.Action), Target: e.Target, TokenID: e.Token, Source: e.Source, Image: e.Image,
		Price: priceOf(e.Price),
	}
}
