# Shows what languages.test.ts expects of every client. Prints one line of JSON.
import json
import os
import time

from headless_crm import Client, CrmError


def failure(call):
    try:
        call()
    except CrmError as error:
        return {
            "code": error.code,
            "message": error.message,
            "status": error.status,
            "request_id": error.request_id,
            "reason": error.details.get("reason"),
            "fields": [field["field"] for field in error.fields],
        }
    return None


crm = Client(os.environ["BASE_URL"], api_key=os.environ["API_KEY"])
started = time.monotonic()
record = crm.create_record("accounts", {"name": "Blue Lake", "roof_type": "flat"})["record"]
waited = time.monotonic() - started
seen = {}
crm.get_record("accounts", record["id"], on_response=lambda response: seen.update(response.headers))
changed = crm.update_record("accounts", record["id"], {"city": "Bonn", "phone": None}, if_match=seen["etag"])["record"]
stale = failure(lambda: crm.update_record("accounts", record["id"], {"city": "Ulm"}, if_match=seen["etag"]))
invalid = failure(lambda: crm.create_lead({"first_name": "Sara", "mobile": "12", "zzz": 1}))
repeated = [
    crm.create_record("accounts", {"name": "Green Hill"}, idempotency_key="import-row-17")["record"]["id"]
    for _ in range(2)
]
crm.create_record("accounts", {"name": "Red Rock"})
listed = list(crm.list_records_all("accounts", limit=2, sort="name"))
attachment = crm.create_attachment("accounts", record["id"], "Quote 17.txt", b"Twenty seats.")["attachment"]
feed = crm.list_changes_follow(cursor="now", objects="leads")
next(feed)
lead = crm.create_lead({"first_name": "Sara", "email": "sara@example.com"})["lead"]
page = next(feed)
print(
    json.dumps(
        {
            "id": record["id"],
            "waited": waited,
            "roof_type": record["roof_type"],
            "city": changed["city"],
            "stale": stale,
            "invalid": invalid,
            "repeated": len(set(repeated)),
            "names": [each["name"] for each in listed],
            "roof_types": [each["roof_type"] for each in listed],
            "attachment": [attachment["file_name"], attachment["size_bytes"]],
            "followed": page["changes"][0]["record_id"] == lead["id"],
        }
    )
)
