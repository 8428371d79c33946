<?php

// Shows what languages.test.ts expects of every client. Prints one line of JSON.

declare(strict_types=1);

require getenv('CLIENT') . '/autoload.php';

use HeadlessCrm\{Answer, CallOptions, Client, CrmException};

function failure(Closure $call): ?array
{
    try {
        $call();
    } catch (CrmException $error) {
        return [
            'code' => $error->errorCode,
            'message' => $error->errorMessage,
            'status' => $error->status,
            'request_id' => $error->requestId,
            'reason' => $error->details['reason'] ?? null,
            'fields' => array_column($error->fields(), 'field'),
        ];
    }
    return null;
}

$crm = new Client(getenv('BASE_URL'), apiKey: getenv('API_KEY'));
$started = microtime(true);
$record = $crm->createRecord('accounts', ['name' => 'Blue Lake', 'roof_type' => 'flat'])['record'];
$waited = microtime(true) - $started;
$etag = null;
$keepEtag = new CallOptions(onResponse: function (Answer $answer) use (&$etag): void {
    $etag = $answer->headers['etag'];
});
$crm->getRecord('accounts', $record['id'], options: $keepEtag);
$changed = $crm->updateRecord('accounts', $record['id'], ['city' => 'Bonn', 'phone' => null], ifMatch: $etag)['record'];
$stale = failure(fn () => $crm->updateRecord('accounts', $record['id'], ['city' => 'Ulm'], ifMatch: $etag));
$invalid = failure(fn () => $crm->createLead(['first_name' => 'Sara', 'mobile' => '12', 'zzz' => 1]));
$repeated = array_map(
    fn () => $crm->createRecord('accounts', ['name' => 'Green Hill'], idempotencyKey: 'import-row-17')['record']['id'],
    [1, 2],
);
$crm->createRecord('accounts', ['name' => 'Red Rock']);
$listed = iterator_to_array($crm->listRecordsAll('accounts', limit: 2, sort: 'name'), false);
$attachment = $crm->createAttachment('accounts', $record['id'], 'Quote 17.txt', 'Twenty seats.')['attachment'];
$feed = $crm->listChangesFollow(cursor: 'now', objects: 'leads');
$feed->current();
$lead = $crm->createLead(['first_name' => 'Sara', 'email' => 'sara@example.com'])['lead'];
$feed->next();
$page = $feed->current();
echo json_encode([
    'id' => $record['id'],
    'waited' => $waited,
    'roof_type' => $record['roof_type'],
    'city' => $changed['city'],
    'stale' => $stale,
    'invalid' => $invalid,
    'repeated' => count(array_unique($repeated)),
    'names' => array_column($listed, 'name'),
    'roof_types' => array_column($listed, 'roof_type'),
    'attachment' => [$attachment['file_name'], $attachment['size_bytes']],
    'followed' => $page['changes'][0]['record_id'] === $lead['id'],
]), "\n";
