package dynamostore

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/expression"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"poold/internal/history"
)

const index = "GSI1"

// Find implements history.Sink.
func (s *Table) Find(ctx context.Context, q history.Query) (page history.Page, err error) {
	low, high := stamp(ceil(q.From)), ":" // of positions; ":" sorts after every one
	if !q.To.IsZero() {
		high = stamp(ceil(q.To)) // the positions of this time sort after this text
	}
	if q.Before != (history.Position{}) {
		high = min(high, position(q.Before.At, q.Before.ID))
	}
	if low > high { // DynamoDB refuses such a query
		return page, nil
	}
	pk, sk, partition, from, to, of := "PK", "SK", "SOLVE#", low, high, (*string)(nil)
	id, at := "order", "ended_at"
	switch q.By {
	case history.BySite:
		partition, from, to = "SITE#", "SOLVE#"+low, "SOLVE#"+high
	case history.ByStatus:
		pk, sk, partition, of = "GSI1PK", "GSI1SK", "STATUS#", aws.String(index)
	case history.ByKey:
		partition, id, at = "KEY#", "id", "at"
	case history.ByID, history.ByTask:
		from, to = "META", "META"
	}
	limit := min(q.Limit, history.MostLimit) + 2 // one more, and the row at q.Before
	if q.Targets != nil || q.Owner != "" {
		limit = history.MostLimit // many rows may be of others
	}
	list := expression.Key(pk).Equal(expression.Value(partition + q.Value)).And(
		expression.Key(sk).Between(expression.Value(from), expression.Value(to)))
	b := expression.NewBuilder().WithKeyCondition(list)
	err = s.query(ctx, b, of, limit, func(i item) bool {
		switch pos := i.text(at) + "#" + i.text(id); {
		case i.text(id) == "", pos < low, pos >= high, // other programs write no id
			q.Targets != nil && !slices.Contains(q.Targets, i.text("target")), q.Owner != "" && q.Owner != i.text("project"),
			q.By == history.ByID && q.Value != i.text(id), q.By == history.ByTask && q.Value != i.text("task"):
			return true
		case len(page.Rows) == q.Limit:
			page.More = true
			return false
		}
		if q.By != history.ByKey {
			i.rename(1, 0)
		}
		page.Rows = append(page.Rows, must(json.Marshal(i)))
		return true
	})
	return page, s.downError(ctx, "reading the history", err)
}

// ceil rounds a time up to whole milliseconds.
func ceil(at time.Time) time.Time {
	return at.Add(time.Millisecond - time.Nanosecond).Truncate(time.Millisecond)
}

// Days implements history.Sink.
func (s *Table) Days(ctx context.Context, day time.Time) (sums []history.Sum, err error) {
	date := day.UTC().Format(time.DateOnly)
	all := expression.NewBuilder().WithKeyCondition(expression.Key("PK").Equal(expression.Value("STATS#" + date)))
	err = s.query(ctx, all, nil, history.MostLimit, func(i item) bool {
		scope, name, _ := strings.Cut(i.text("SK"), "#") // see sumKey
		sum := history.Sum{Day: date, Scope: history.Scope(strings.ToLower(scope)), Name: name, Figures: history.Figures{}}
		for attribute, value := range i {
			if n, is := value.(float64); is && attribute != "ttl" && attribute != "total_solves" {
				sum.Figures[cmp.Or(figures[attribute], attribute)] = int64(n)
			}
		}
		if sum.Scope != history.ScopeKey {
			sum.Figures["failed"] -= sum.Figures["discarded"] + sum.Figures["lost"]
		}
		if sum.Scope == history.ScopeTarget {
			sum.Name, sum.Owner, _ = strings.Cut(name, "#") // no target's name contains it
		}
		sums = append(sums, sum)
		return true
	})
	return sums, s.downError(ctx, "reading the figures of a day", err)
}

// figures maps attributes of the table to the figures of history.Figures, if the two names differ.
var figures = map[string]string{"successful": "solved", "total_elapsed": "elapsed_ms"}

// query passes the items to the function see, the greatest sort key first, until see returns false. A call of DynamoDB
// reads at most `limit` items.
func (s *Table) query(ctx context.Context, b expression.Builder, of *string, limit int, see func(item) bool) error {
	ttl := expression.Name("ttl") // DynamoDB deletes expired items hours or days later
	kept := expression.AttributeNotExists(ttl).Or(ttl.GreaterThan(expression.Value(time.Now().Unix())))
	built := must(b.WithFilter(kept).Build())
	pages := dynamodb.NewQueryPaginator(s.client, &dynamodb.QueryInput{
		TableName: &s.table, IndexName: of, ScanIndexForward: aws.Bool(false),
		Limit:                  aws.Int32(int32(limit)), //nolint:gosec // G115: at most MostLimit and 2
		KeyConditionExpression: built.KeyCondition(), FilterExpression: built.Filter(),
		ExpressionAttributeNames: built.Names(), ExpressionAttributeValues: built.Values(),
	})
	for pages.HasMorePages() {
		var items []item
		found, err := pages.NextPage(ctx)
		if err == nil {
			err = attributevalue.UnmarshalListOfMaps(found.Items, &items)
		}
		if err != nil {
			return err
		}
		if slices.ContainsFunc(items, func(i item) bool { return !see(i) }) {
			return nil
		}
	}
	return nil
}
