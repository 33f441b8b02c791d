package dynamostore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"poold/internal/captcha"
	"poold/internal/history"
)

const (
	shards       = 10
	typePrefix   = "TYPE#"
	targetPrefix = "TARGET#"
)

// sum is what an item of a day's figures is about.
type sum struct {
	day      string
	byTarget bool // of owned, else of kind
	kind     captcha.Type
	owned    history.Owned
}

// sums are those that a record is counted in.
func sums(r history.Record) [2]sum {
	day := date(r.Ended)
	return [2]sum{
		{day: day, kind: r.Type},
		{day: day, byTarget: true, owned: history.Owned{Target: r.Target, Owner: r.Owner}},
	}
}

func date(at time.Time) string { return at.UTC().Format(time.DateOnly) }

func shardKey(day string, shard int) string { return fmt.Sprintf("STATS#%s#shard%d", day, shard) }

// unbroken keeps what divides a key out of a part of it.
var unbroken = strings.NewReplacer("%", "%25", "#", "%23")

func (s sum) sortKey() string {
	if !s.byTarget {
		return typePrefix + string(s.kind)
	}
	return keyed(targetPrefix+unbroken.Replace(s.owned.Target)+"#", s.owned.Owner, mostSortKey)
}

// names are the attributes that say what the item is about.
func (s sum) names() item {
	if !s.byTarget {
		return item{"captcha_type": &types.AttributeValueMemberS{Value: string(s.kind)}}
	}
	return item{
		"target":  &types.AttributeValueMemberS{Value: s.owned.Target},
		"project": &types.AttributeValueMemberS{Value: s.owned.Owner},
	}
}

// counted is figures as the attributes have them.
func counted(f history.Figures) item {
	i := item{}
	for name, n := range map[string]int64{
		"total_solves":  f.Orders(),
		"successful":    f.Solved,
		"failed":        f.Orders() - f.Solved,
		"discarded":     f.Discarded,
		"refused":       f.Refused,
		"lost":          f.Lost,
		"total_elapsed": f.Elapsed.Milliseconds(),
		"spent":         f.Spent,
	} {
		i.setNumber(name, n)
	}
	return i
}

// figures is the inverse of counted.
func (i item) figures() history.Figures {
	return history.Figures{
		Solved:    i.number("successful"),
		Discarded: i.number("discarded"),
		Failed:    i.number("failed") - i.number("discarded") - i.number("refused") - i.number("lost"),
		Refused:   i.number("refused"),
		Lost:      i.number("lost"),
		Elapsed:   time.Duration(i.number("total_elapsed")) * time.Millisecond,
		Spent:     i.number("spent"),
	}
}

// update adds figures to an item of a shard.
func (s *Store) update(of sum, shard int, f history.Figures) *types.Update {
	key := item{}
	key.setKey(shardKey(of.day, shard), of.sortKey())
	names, values := map[string]string{}, item{}
	assign := func(with item, format string) string {
		var parts []string
		for name, value := range with {
			names["#"+name], values[":"+name] = name, value
			parts = append(parts, fmt.Sprintf(format, "#"+name, ":"+name))
		}
		return strings.Join(parts, ", ")
	}
	return &types.Update{
		TableName: aws.String(s.table), Key: key,
		UpdateExpression:         aws.String("SET " + assign(of.names(), "%s = %s") + " ADD " + assign(counted(f), "%s %s")),
		ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	}
}

// Day implements history.Store.
func (s *Store) Day(ctx context.Context, day time.Time) (history.Day, error) {
	found := history.Day{Types: map[captcha.Type]history.Figures{}, Targets: map[history.Owned]history.Figures{}}
	expression, names := projection("SK", "captcha_type", "target", "project", "successful", "failed", "discarded", "refused", "lost",
		"total_elapsed", "spent")
	names["#PK"] = "PK"
	for shard := range shards {
		pages := dynamodb.NewQueryPaginator(s.client, &dynamodb.QueryInput{
			TableName: aws.String(s.table), KeyConditionExpression: aws.String("#PK = :pk"),
			ProjectionExpression: aws.String(expression), ExpressionAttributeNames: names,
			ExpressionAttributeValues: item{":pk": &types.AttributeValueMemberS{Value: shardKey(date(day), shard)}},
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return history.Day{}, s.down(ctx, "reading the figures of a day", err)
			}
			for _, i := range page.Items {
				add(found, i)
			}
		}
	}
	return found, nil
}

// add adds an item of a shard to the day.
func add(day history.Day, i item) {
	if strings.HasPrefix(i.text("SK"), typePrefix) {
		kind := captcha.Type(i.text("captcha_type"))
		day.Types[kind] = day.Types[kind].Plus(i.figures())
		return
	}
	owned := history.Owned{Target: i.text("target"), Owner: i.text("project")}
	day.Targets[owned] = day.Targets[owned].Plus(i.figures())
}
