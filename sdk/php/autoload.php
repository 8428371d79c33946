<?php

/** Loads the client without Composer: require this file. */

spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'HeadlessCrm\\')) {
        require __DIR__ . '/src/' . substr($class, strlen('HeadlessCrm\\')) . '.php';
    }
});
