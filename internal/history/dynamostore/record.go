package dynamostore

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"poold/internal/captcha"
	"poold/internal/history"
)

const (
	solvePrefix  = "SOLVE#" // of the key of a record, and of the sort key of a site's
	sitePrefix   = "SITE#"
	activePrefix = "ACTIVE#"
	statusPrefix = "STATUS#"
	meta         = "META"
	task         = "TASK"

	// How many bytes a key may have.
	mostPartitionKey = 2048
	mostSortKey      = 1024
)

// keyed is a key that ends with a text, or with a hash of it where that would be too long.
func keyed(prefix, text string, most int) string {
	if len(prefix)+len(text) > most {
		hash := sha256.Sum256([]byte(text))
		text = hex.EncodeToString(hash[:])
	}
	return prefix + text
}

// siteKey is the key of a site's records.
func siteKey(sitekey string) string { return keyed(sitePrefix, sitekey, mostPartitionKey) }

// shown are the attributes that make up a record, with the keys that its ID is read from.
var shown = []string{
	"PK", "SK", "order", "captcha_type", "sitekey", "pageurl", "provider", "task", "target", "project",
	"placed_at", "submitted_at", "solved_at", "ended_at", "how", "code", "polls", "callback", "price", "ttl",
}

// item is an item of the table, or a key.
type item map[string]types.AttributeValue

// orderItem is what is known of an order under way.
func orderItem(r history.Record) item {
	i := item{}
	i.setText("captcha_type", string(r.Type))
	i.setText("sitekey", r.Sitekey)
	i.setText("pageurl", r.Pageurl)
	i.setText("provider", r.Provider)
	i.setText("task", r.Task)
	i.setText("target", r.Target)
	i.setText("project", r.Owner)
	i.setTime("placed_at", r.Placed)
	i.setTime("submitted_at", r.Submitted)
	return i
}

// solveItem is a record.
func solveItem(r history.Record, keep time.Duration) item {
	i := orderItem(r)
	i.setKey(solvePrefix+r.ID, meta)
	i.setIndex(r.Status(), position(r.Ended, r.ID))
	i.setTime("solved_at", r.Solved)
	i.setTime("ended_at", r.Ended)
	i.setText("how", string(r.How))
	i.setText("code", r.Code)
	i.setNumber("elapsed_ms", r.Elapsed().Milliseconds())
	i.setNumber("polls", int64(r.Polls))
	i["callback"] = &types.AttributeValueMemberBOOL{Value: r.Callback}
	i.setNumber("price", r.Price)
	i.setNumber("ttl", r.Ended.Add(keep).Unix())
	return i
}

// siteItem is the copy of a solve's item for its site; nil where it has none.
func siteItem(solve item) item {
	if solve.text("sitekey") == "" {
		return nil
	}
	i := maps.Clone(solve)
	delete(i, "GSI1PK")
	delete(i, "GSI1SK")
	i.setKey(siteKey(solve.text("sitekey")), solvePrefix+solve.text("GSI1SK"))
	return i
}

// taskItem returns the copy of a solve's item that is found by its task, or nil if it has none.
func taskItem(solve item) item {
	name := solve.text("task")
	if name == "" || history.IsOrder(name) {
		return nil
	}
	i := maps.Clone(solve)
	delete(i, "GSI1PK")
	delete(i, "GSI1SK")
	i.setText("order", solve.id())
	i.setKey(taskKey(name), meta)
	return i
}

// taskKey is the key of the item that is found by a task. It is normalised as the SDK does, so
// that no batch has one key twice.
func taskKey(name string) string {
	return keyed(solvePrefix, strings.ToValidUTF8(name, "\uFFFD"), mostPartitionKey)
}

// record reads the item of a solve, of a site or of a task; false where it is past its ttl, or is no
// item of ours.
func (i item) record(now time.Time) (history.Record, bool) {
	r := history.Record{
		ID:        i.id(),
		Type:      captcha.Type(i.text("captcha_type")),
		Sitekey:   i.text("sitekey"),
		Pageurl:   i.text("pageurl"),
		Provider:  i.text("provider"),
		Task:      i.text("task"),
		Target:    i.text("target"),
		Owner:     i.text("project"),
		Placed:    i.time("placed_at"),
		Submitted: i.time("submitted_at"),
		Solved:    i.time("solved_at"),
		Ended:     i.time("ended_at"),
		How:       history.How(i.text("how")),
		Code:      i.text("code"),
		Polls:     int(i.number("polls")),
		Callback:  i.truth("callback"),
		Price:     i.number("price"),
	}
	_, identity, _ := strings.Cut(r.ID, ".")
	r.Identity = captcha.ID(identity)
	return r, i.number("ttl") > now.Unix() && r.ID != "" && r.How != "" && !r.Ended.IsZero()
}

// id is the ID of the record of an item.
func (i item) id() string {
	if order := i.text("order"); order != "" {
		return order
	}
	if id, solve := strings.CutPrefix(i.text("PK"), solvePrefix); solve {
		return id
	}
	_, id, _ := strings.Cut(strings.TrimPrefix(i.text("SK"), solvePrefix), "#")
	return id
}

// timestamp is a time in whole milliseconds as texts have it.
const timestamp = "2006-01-02T15:04:05.000Z"

// position sorts as the records of a Query do.
func position(at time.Time, id string) string { return stamp(at) + "#" + id }

func stamp(at time.Time) string { return at.UTC().Format(timestamp) }

func (i item) setKey(pk, sk string) {
	i.setText("PK", pk)
	i.setText("SK", sk)
}

// setIndex sets the keys of the index, and the status that is in them.
func (i item) setIndex(status history.Status, sk string) {
	i.setText("status", string(status))
	i.setText("GSI1PK", statusPrefix+string(status))
	i.setText("GSI1SK", sk)
}

func (i item) setText(name, value string) {
	if value != "" {
		i[name] = &types.AttributeValueMemberS{Value: value}
	}
}

func (i item) setTime(name string, at time.Time) {
	if !at.IsZero() {
		i.setText(name, stamp(at))
	}
}

func (i item) setNumber(name string, n int64) {
	i[name] = &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// text is "" where the item has no such text; those below are zero likewise.
func (i item) text(name string) string {
	if s, ok := i[name].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

func (i item) time(name string) time.Time {
	at, err := time.Parse(timestamp, i.text(name))
	if err != nil {
		return time.Time{}
	}
	return at
}

func (i item) number(name string) int64 {
	if n, ok := i[name].(*types.AttributeValueMemberN); ok {
		if value, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			return value
		}
	}
	return 0
}

func (i item) truth(name string) bool {
	b, ok := i[name].(*types.AttributeValueMemberBOOL)
	return ok && b.Value
}
