// Shows what languages.test.ts expects of every client. Prints one line of JSON.
import headlesscrm.CallOptions;
import headlesscrm.Client;
import headlesscrm.Config;
import headlesscrm.CrmException;
import headlesscrm.Json;
import headlesscrm.Upload;
import headlesscrm.model.LeadCreate;
import headlesscrm.model.ListChangesParams;
import headlesscrm.model.ListRecordsParams;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

public class Proof {
    static Map<String, Object> failure(Runnable call) {
        try {
            call.run();
        } catch (CrmException error) {
            var told = new LinkedHashMap<String, Object>();
            told.put("code", error.code());
            told.put("message", error.message());
            told.put("status", error.status());
            told.put("request_id", error.requestId());
            told.put("reason", error.details().get("reason"));
            told.put("fields", error.fields().stream().map(field -> field.get("field")).toList());
            return told;
        }
        return null;
    }

    public static void main(String[] arguments) {
        var crm = new Client(new Config(System.getenv("BASE_URL")).apiKey(System.getenv("API_KEY")));
        var started = System.nanoTime();
        var record = crm.createRecord("accounts", Map.of("name", "Blue Lake", "roof_type", "flat")).record();
        var waited = (System.nanoTime() - started) / 1e9;
        var etag = new String[1];
        var keepEtag = new CallOptions().onResponse(answer -> etag[0] = answer.headers().firstValue("etag").orElse(null));
        crm.getRecord("accounts", record.id(), null, keepEtag);
        var ifMatch = new CallOptions().ifMatch(etag[0]);
        var change = new HashMap<String, Object>();
        change.put("city", "Bonn");
        change.put("phone", null);
        var changed = crm.updateRecord("accounts", record.id(), change, ifMatch).record();
        var stale = failure(() -> crm.updateRecord("accounts", record.id(), Map.of("city", "Ulm"), ifMatch));
        var wrong = new LeadCreate().firstName("Sara").lastName(null).mobile("12").customFields(Map.of("zzz", 1));
        var invalid = failure(() -> crm.createLead(wrong));
        var repeated = new HashSet<String>();
        for (var i = 0; i < 2; i++) {
            var key = new CallOptions().idempotencyKey("import-row-17");
            repeated.add(crm.createRecord("accounts", Map.of("name", "Green Hill"), key).record().id());
        }
        crm.createRecord("accounts", Map.of("name", "Red Rock"));
        var names = new ArrayList<Object>();
        var roofTypes = new ArrayList<Object>();
        for (var each : crm.listRecordsAll("accounts", new ListRecordsParams().limit(2L).sort("name"), null)) {
            names.add(each.getProperty("name"));
            roofTypes.add(each.getProperty("roof_type"));
        }
        var file = new Upload("Quote 17.txt", "text/plain", "Twenty seats.".getBytes());
        var attachment = crm.createAttachment("accounts", record.id(), file).attachment();
        var feed = crm.listChangesFollow(new ListChangesParams().cursor("now").objects("leads"), null).iterator();
        feed.next();
        var lead = crm.createLead(new LeadCreate().firstName("Sara").email("sara@example.com")).lead();
        var page = feed.next();
        var printed = new LinkedHashMap<String, Object>();
        printed.put("id", record.id());
        printed.put("waited", waited);
        printed.put("roof_type", record.getProperty("roof_type"));
        printed.put("city", changed.getProperty("city"));
        printed.put("stale", stale);
        printed.put("invalid", invalid);
        printed.put("repeated", repeated.size());
        printed.put("names", names);
        printed.put("roof_types", roofTypes);
        printed.put("attachment", List.of(attachment.fileName(), attachment.sizeBytes()));
        printed.put("followed", page.changes().get(0).recordId().equals(lead.id()));
        System.out.println(Json.write(printed));
    }
}
