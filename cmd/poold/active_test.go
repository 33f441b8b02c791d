package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"poold/internal/history/dynamotest"
	"poold/internal/testkit"
)

// polling returns the keys of the orders in flight. It reads them in the same way as a program that
// knows only the table in DynamoDB.
func polling(t *testing.T, emulator string) (keys []string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, emulator, strings.NewReader(`{"TableName":"Solves","IndexName":"GSI1",
		"KeyConditionExpression":"GSI1PK = :pk","ExpressionAttributeValues":{":pk":{"S":"STATUS#polling"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Amz-Target", "DynamoDB_20120810.Query")
	request.Header.Set("Content-Type", "application/x-amz-json-1.0")
	request.Header.Set("X-Amz-Date", "20260101T000000Z")
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var found struct {
		Items []map[string]struct{ S string }
	}
	if err := json.Unmarshal(body, &found); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %.300s: %v", response.Status, body, err)
	}
	for _, item := range found.Items {
		if item["captcha_type"].S == "" || item["task"].S == "" || item["target"].S != "login" || item["project"].S == "" {
			t.Errorf("an order under way: %v", item)
		}
		keys = append(keys, item["PK"].S)
	}
	return keys
}

// The table in DynamoDB has an item for each order in flight, until the order ends.
func TestDynamoDBShowsOrdersInFlight(t *testing.T) {
	t.Parallel()
	emulator := dynamotest.Start(t)
	o := quick()
	o.Median, o.Sigma, o.Min, o.Max = 8*time.Second, 0, 8*time.Second, 8*time.Second
	w := newWorld(t, o, terms{
		depth: 3, timeout: "60s", top: fmt.Sprintf("history: {backend: dynamodb, table: Solves, endpoint: %q}", emulator.URL),
	})
	env := []string{"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=" + dynamotest.Secret, "AWS_REGION=us-east-1"}
	w.initHistory(t, env)
	w.start(t, env...)
	testkit.Within(t, time.Minute, "the three orders to be shown", func() bool { return len(polling(t, emulator.URL)) == 3 })
	testkit.Within(t, time.Minute, "none to be shown", func() bool { return len(polling(t, emulator.URL)) == 0 })
}
