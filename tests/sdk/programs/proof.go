// Shows what languages.test.ts expects of every client. Prints one line of JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"time"

	crm "example.com/headlesscrm"
)

type failure struct {
	Code      string   `json:"code"`
	Message   string   `json:"message"`
	Status    int      `json:"status"`
	RequestID string   `json:"request_id"`
	Reason    any      `json:"reason"`
	Fields    []string `json:"fields"`
}

func toFailure(err error) *failure {
	var failed *crm.Error
	if !errors.As(err, &failed) {
		return nil
	}
	fields := []string{}
	for _, field := range failed.Fields {
		fields = append(fields, field.Field)
	}
	return &failure{failed.Code, failed.Message, failed.Status, failed.RequestID, failed.Details["reason"], fields}
}

func must[Answer any](answer Answer, err error) Answer {
	if err != nil {
		panic(err)
	}
	return answer
}

func main() {
	ctx := context.Background()
	client := crm.New(crm.Config{BaseURL: os.Getenv("BASE_URL"), APIKey: os.Getenv("API_KEY")})
	started := time.Now()
	record := must(client.CreateRecord(ctx, "accounts", map[string]any{"name": "Blue Lake", "roof_type": "flat"})).Record
	waited := time.Since(started).Seconds()
	id := record["id"].(string)
	etag := ""
	keepETag := crm.WithResponse(func(response *http.Response) { etag = response.Header.Get("ETag") })
	must(client.GetRecord(ctx, "accounts", id, nil, keepETag))
	ifMatch := crm.WithIfMatch(etag)
	changed := must(client.UpdateRecord(ctx, "accounts", id, map[string]any{"city": "Bonn", "phone": nil}, ifMatch)).Record
	_, stale := client.UpdateRecord(ctx, "accounts", id, map[string]any{"city": "Ulm"}, ifMatch)
	// A mistake that the types allow: neither of both that a lead needs, and a wrong number.
	_, invalid := client.CreateLead(ctx, crm.LeadCreate{
		FirstName: "Sara", Mobile: crm.Set("12"), LastName: crm.Null[string](), CustomFields: crm.Set(map[string]any{"zzz": 1}),
	})
	repeated := map[string]bool{}
	for i := 0; i < 2; i++ {
		key := crm.WithIdempotencyKey("import-row-17")
		made := must(client.CreateRecord(ctx, "accounts", map[string]any{"name": "Green Hill"}, key)).Record
		repeated[made["id"].(string)] = true
	}
	must(client.CreateRecord(ctx, "accounts", map[string]any{"name": "Red Rock"}))
	names, roofTypes := []any{}, []any{}
	all := client.ListRecordsAll("accounts", &crm.ListRecordsParams{Limit: 2, Sort: "name"})
	for all.Next(ctx) {
		names, roofTypes = append(names, all.Value()["name"]), append(roofTypes, all.Value()["roof_type"])
	}
	if all.Err() != nil {
		panic(all.Err())
	}
	file := crm.File{Name: "Quote 17.txt", Content: []byte("Twenty seats.")}
	attachment := must(client.CreateAttachment(ctx, "accounts", id, file)).Attachment
	feed := client.ListChangesFollow(&crm.ListChangesParams{Cursor: "now", Objects: "leads"})
	feed.Next(ctx)
	lead := must(client.CreateLead(ctx, crm.LeadCreate{FirstName: "Sara", Email: crm.Set("sara@example.com")})).Lead
	feed.Next(ctx)
	if feed.Err() != nil {
		panic(feed.Err())
	}
	printed := json.NewEncoder(os.Stdout).Encode(map[string]any{
		"id":         id,
		"waited":     waited,
		"roof_type":  record["roof_type"],
		"city":       changed["city"],
		"stale":      toFailure(stale),
		"invalid":    toFailure(invalid),
		"repeated":   len(repeated),
		"names":      names,
		"roof_types": roofTypes,
		"attachment": []any{attachment.FileName, attachment.SizeBytes},
		"followed":   *feed.Value().Changes[0].RecordID == lead.ID,
	})
	if printed != nil {
		panic(printed)
	}
}
