"""Mutants of storage."""

from tests.mutants import mutants_of, tests_in

FILES = tests_in("storage/test_files.py")
FOLDERS = tests_in("storage/test_folders.py")
TIGHT = tests_in("storage/test_tight.py")
SWEEP = tests_in("sweep/test_sweep.py")

MUTANTS = [
    *mutants_of(
        "storage/folders.py",
        (
            "if digest is not None and digest != _digest(path / ARRAYS, meta):",
            "if False:",
            "a result that was changed is believed",
            FOLDERS("test_a_damaged_folder_is_not_believed"),
        ),
        (
            "    digest.update(plain.encode())\n",
            "",
            "settings that were changed are believed",
            FOLDERS("test_a_damaged_folder_is_not_believed"),
        ),
        (
            "        while block := file.read(1 << 20):\n            digest.update(block)\n",
            "",
            "arrays that were changed are believed",
            FOLDERS("test_a_damaged_folder_is_not_believed"),
        ),
        (
            "        path.rename(aside)\n",
            "        shutil.rmtree(path)\n",
            "a kill between the renames loses the result",
            FOLDERS("test_a_kill_at_either_rename_loses_nothing"),
        ),
        (
            "    if not os.path.lexists(path) and aside.is_dir() and not aside.is_symlink():",
            "    if False:",
            "a checkpoint that was moved aside is not found",
            FOLDERS("test_a_kill_at_either_rename_loses_nothing"),
        ),
        (
            "        (path / marker).unlink(missing_ok=True)\n",
            "",
            "a kill in the middle leaves a mixture that looks whole",
            FOLDERS("test_a_kill_in_the_middle_shows"),
        ),
        (
            "key=lambda name: name == marker)",
            "key=lambda name: name != marker)",
            "the marker comes first: a kill in the middle looks whole",
            FOLDERS("test_a_kill_in_the_middle_shows"),
        ),
        (
            "    if target.exists() and not target.is_dir():",
            "    if False:",
            "a file in the way is replaced",
            FOLDERS("test_a_file_in_the_way_is_refused_and_a_failure_leaves_nothing"),
        ),
    ),
    *mutants_of(
        "storage/locks.py",
        (
            "                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)",
            "                pass",
            "two runs write to one folder",
            TIGHT("test_a_lock_on_a_file_that_lost_its_name_is_taken_again"),
        ),
        (
            "fcntl.LOCK_EX | fcntl.LOCK_NB",
            "fcntl.LOCK_SH | fcntl.LOCK_NB",
            "a lock that two may hold",
            FOLDERS("test_a_folder_is_one_process_at_a_time"),
        ),
        (
            "        if _is_still(path, handle):\n            return handle\n        os.close(handle)",
            "        return handle",
            "a lock on a file that has lost its name",
            TIGHT("test_a_lock_on_a_file_that_lost_its_name_is_taken_again"),
        ),
    ),
    *mutants_of(
        "storage/files.py",
        (
            "        os.replace(temporary, path)\n",
            "        path.write_bytes(data)\n",
            "links are followed, and a kill leaves half a file",
            FILES("test_a_link_in_the_way_is_replaced_and_not_followed"),
        ),
        (
            "allow_nan=False",
            "allow_nan=True",
            "JSON that no other program reads",
            TIGHT("test_json_that_nobody_else_reads_is_not_written"),
        ),
    ),
    *mutants_of(
        "storage/cache.py",
        (
            "if described.get(_KEY) == key:",
            "if described:",
            "values of other weights are taken",
            FOLDERS("test_what_is_kept_is_not_computed_again"),
        ),
        (
            'if about.get("run") == key:',
            "if about:",
            "arrays of other weights are taken",
            FOLDERS("test_what_is_kept_is_not_computed_again"),
        ),
    ),
    *mutants_of(
        "simulate/sweep/store.py",
        (
            "WHERE error = '' AND id IN",
            "WHERE id IN",
            "a failed run is never tried again",
            SWEEP("test_a_broken_run_is_a_row_and_is_tried_again"),
        ),
    ),
]
